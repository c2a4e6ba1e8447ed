import FoundationEssentials
import Logging
import NIOCore
import RelayCore
import RelayHTTP
import SwiftProtobuf
import Synchronization
import WireMessages

/// A device to be that waits for its number, its keys and a linking code, sealed by another device (reference 1.14).
/// The bytes that pass here are opaque.
///
/// `@unchecked Sendable`: everything that is not constant is used on the socket's event loop alone.
final class ProvisioningSession: SocketSession, LiveSession, @unchecked Sendable {
  private enum State {
    /// Not announced yet.
    case opening
    /// Becomes `told`, or `closing`.
    case waiting
    /// Something was handed over under that id; becomes `closing` with its answer.
    case told(UInt64)
    case closing
  }

  private let socket: any Socket
  private let place: ProvisioningRegistry.Place
  private let registry: ProvisioningRegistry
  private let metrics: LiveMetrics
  private let logger: Logger
  private let address: ProvisioningAddress
  let began = ContinuousClock.now
  private let dialect = ProtobufDialect()
  /// Until something is handed over, or it closes.
  private let waiting = Atomic(true)
  private var state = State.opening

  init(
    _ socket: any Socket, at place: ProvisioningRegistry.Place, registry: ProvisioningRegistry, metrics: LiveMetrics,
    logger: Logger
  ) {
    self.socket = socket
    self.place = place
    self.registry = registry
    self.metrics = metrics
    self.logger = logger
    address = .random()
  }

  func opened() {
    registry.enter(self, at: address)
    // The client is told its address once others find it there.
    Task { [self, registry, address, loop = socket.eventLoop] in
      await registry.announce(address)
      loop.execute { self.announce() }
    }
  }

  private func announce() {
    guard case .opening = state else { return }
    state = .waiting
    var uuid = Textsecure_ProvisioningUuid()
    uuid.uuid = address.text
    do {
      _ = send("/v1/address", try uuid.serializedData())
    } catch {
      fail(error)
    }
  }

  /// Whether something can be handed over. From any thread.
  var isWaiting: Bool { waiting.load(ordering: .acquiring) }

  /// Hands `bytes` over, from any thread. The device is told only once.
  /// - Returns: false if it is told nothing.
  func handedOver(_ bytes: [UInt8]) -> Bool {
    guard waiting.exchange(false, ordering: .acquiringAndReleasing) else { return false }
    socket.eventLoop.execute {
      guard case .waiting = self.state, let id = self.send("/v1/message", Data(bytes)) else { return }
      self.state = .told(id)
    }
    return true
  }

  /// - Returns: under which id; nil when it could not be written.
  private func send(_ path: String, _ body: Data) -> UInt64? {
    let id = dialect.deliveryID(after: nil) { _ in false }
    do {
      socket.send(try ProtobufDialect.call("PUT", path, body: body, id: id))
      return id
    } catch {
      fail(error)
      return nil
    }
  }

  func received(_ message: SocketMessage) {
    switch dialect.read(message) {
    case .acknowledgement(let id), .refusal(let id):
      // The client has it, whatever its answer says.
      if case .told(id) = state { finish(.done) }
    case .call(let call): answer(call)
    case .malformed: finish(.malformed)
    case .ping, .nothing: break
    }
  }

  /// There is nothing to ask for here.
  private func answer(_ call: SocketCall) {
    guard let id = call.id else { return }
    do {
      let answer = call.isKeepAlive ? SocketAnswer.ok : SocketAnswer(status: 404, message: "Not Found")
      if let message = try dialect.answer(answer, to: id) { socket.send(message) }
    } catch {
      fail(error)
    }
  }

  func becameWritable() {}

  func closed() {
    if case .closing = state {} else { metrics.ended(nil) }
    state = .closing
    waiting.store(false, ordering: .releasing)
    registry.left(address)
  }

  func end(_ reason: EndReason) { socket.eventLoop.execute { self.finish(reason) } }

  private func finish(_ reason: EndReason) {
    if case .closing = state { return }
    state = .closing
    waiting.store(false, ordering: .releasing)
    metrics.ended(reason)
    socket.close(reason.close)
  }

  private func fail(_ error: any Error) {
    logger.error("a provisioning message could not be written", metadata: ["error": "\(type(of: error))"])
    finish(.internalError)
  }
}

extension ProvisioningAddress {
  fileprivate static func random() -> ProvisioningAddress {
    var random = SystemRandomNumberGenerator()
    while true {
      // As many bytes as it takes: never nil.
      let bytes = (0..<byteCount).map { _ in UInt8.random(in: 0...255, using: &random) }
      if let address = ProvisioningAddress(bytes: bytes) { return address }
    }
  }
}
