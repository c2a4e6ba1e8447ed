// The beginning of WebSockets: the connection, TLS, the upgrade, or the relay's refusal.

import Foundation
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL
import NIOWebSocket
import Synchronization

/// Opens WebSockets to one relay.
package final class ClientSocketOpener: Sendable {
  /// A request for a WebSocket.
  package struct Request: Sendable {
    /// Behind the relay's URL: begins with `/`, percent-encoded, with its query.
    package var path: String
    package var headers: [(name: String, value: String)] = []
    /// Larger messages end the connection.
    package var messageBytesMax = 2 << 20
    /// How often a ping is sent; nil sends none.
    package var keepAlive: Duration?
    package init(path: String) { self.path = path }
  }

  /// An answer in place of a WebSocket.
  package struct Refusal: Sendable {
    package let status: Int
    /// Names in lower case; of repeated fields the last.
    package let headers: [String: String]
    /// At most 64 KiB; the rest is cut off.
    package let body: [UInt8]
  }

  package enum Outcome: Sendable {
    case opened(ClientSocket)
    case refused(Refusal)
  }

  private let host: String
  private let port: Int
  private let isTLS: Bool
  private let pathPrefix: String
  private let trustRoots: NIOSSLTrustRoots
  private let connectTimeout: Duration
  private let handshakeTimeout: Duration
  /// Made when it is first needed: reading the system's certificates takes its time.
  private let context = Mutex<NIOSSLContext?>(nil)

  /// - Parameters:
  ///   - url: the relay's, without a trailing slash.
  ///   - trustRootsPEM: text of the certificates that may vouch for the relay; nil trusts the system's.
  ///   - connectTimeout: the longest time until a connection stands.
  ///   - handshakeTimeout: the longest time from then on until the relay has answered.
  /// - Throws: `.invalidArgument` when the URL or the trust roots cannot be read.
  package init(url: String, trustRootsPEM: String?, connectTimeout: Duration, handshakeTimeout: Duration)
    throws(RelayClientError)
  {
    guard let parsed = RequestURL(url) else {
      throw .invalidArgument("a relay's URL is http:// or https://, a host, and perhaps a port")
    }
    (host, port, isTLS, pathPrefix) = (parsed.host, parsed.port, parsed.isTLS, parsed.path)
    trustRoots = try .init(pem: trustRootsPEM)
    self.connectTimeout = connectTimeout
    self.handshakeTimeout = handshakeTimeout
  }

  /// Asks for a WebSocket once.
  /// - Throws: `.unreachable`, `.timedOut`; `.unexpectedAnswer` when the upgrade is not one.
  package func open(_ request: Request, receiver: any ClientSocketReceiver) async throws(RelayClientError) -> Outcome {
    let hasOpened = Atomic(false)
    let hasExpired = Atomic(false)
    do {
      let tls = try isTLS ? tlsContext() : nil
      let (channel, upgrade) = try await ClientBootstrap(group: .singletonMultiThreadedEventLoopGroup)
        .connectTimeout(.nanoseconds(connectTimeout.nanoseconds))
        .channelOption(.tcpOption(.tcp_nodelay), value: 1)
        .connect(host: host, port: port) { channel in
          channel.eventLoop.makeCompletedFuture {
            let upgrade = try self.prepare(channel, request, tls, receiver)
            upgrade.whenSuccess { if case .opened = $0 { hasOpened.store(true, ordering: .relaxed) } }
            return (channel, upgrade)
          }
        }
      let limit = channel.eventLoop.scheduleTask(in: .nanoseconds(handshakeTimeout.nanoseconds)) {
        // Asked here, on the event loop: a task that comes late to hear of its connection must not find it closed.
        guard !hasOpened.load(ordering: .relaxed) else { return }
        hasExpired.store(true, ordering: .relaxed)
        channel.close(promise: nil)
      }
      defer { limit.cancel() }
      do {
        return try await Self.outcome(of: upgrade, on: channel)
      } catch {
        channel.close(promise: nil)
        throw error
      }
    } catch let error as RelayClientError {
      throw error
    } catch {
      if hasExpired.load(ordering: .relaxed) { throw .timedOut }
      throw Self.failure(error)
    }
  }

  private static func outcome(of upgrade: Upgraded, on channel: any Channel) async throws -> Outcome {
    try await withTaskCancellationHandler {
      switch try await upgrade.get() {
      case .opened(let socket): return .opened(socket)
      case .refused(let refusal):
        defer { channel.close(promise: nil) }
        return .refused(try await refusal.get())
      }
    } onCancel: {
      channel.close(promise: nil)
    }
  }

  private enum Upgrade: Sendable {
    case opened(ClientSocket)
    case refused(EventLoopFuture<Refusal>)
  }
  private typealias Upgraded = EventLoopFuture<Upgrade>

  /// On the channel's event loop, before it connects.
  private func prepare(
    _ channel: any Channel, _ request: Request, _ tls: NIOSSLContext?, _ receiver: any ClientSocketReceiver
  ) throws -> Upgraded {
    let pipeline = channel.pipeline.syncOperations
    if let tls { try pipeline.addHandler(NIOSSLClientHandler(context: tls, serverHostname: serverName)) }
    var head = HTTPRequestHead(version: .http1_1, method: .GET, uri: pathPrefix + request.path)
    head.headers.add(name: "Host", value: hostField)
    for (name, value) in request.headers { head.headers.add(name: name, value: value) }
    let upgrader = NIOTypedWebSocketClientUpgrader<Upgrade>(
      maxFrameSize: request.messageBytesMax, enableAutomaticErrorHandling: false
    ) { channel, _ in
      channel.eventLoop.makeCompletedFuture { .opened(try Self.begin(channel, request, receiver)) }
    }
    var configuration = NIOUpgradableHTTPClientPipelineConfiguration(
      upgradeConfiguration: NIOTypedHTTPClientUpgradeConfiguration(
        upgradeRequestHead: head, upgraders: [upgrader],
        notUpgradingCompletionHandler: { channel in
          channel.eventLoop.makeCompletedFuture {
            let refusal = channel.eventLoop.makePromise(of: Refusal.self)
            try channel.pipeline.syncOperations.addHandler(RefusalReader(refusal))
            return .refused(refusal.futureResult)
          }
        }))
    // A server may speak at once: its first frames come in one packet with its answer.
    configuration.leftOverBytesStrategy = .forwardBytes
    return try pipeline.configureUpgradableHTTPClientPipeline(configuration: configuration)
  }

  private static func begin(_ channel: any Channel, _ request: Request, _ receiver: any ClientSocketReceiver) throws
    -> ClientSocket
  {
    let end = channel.eventLoop.makePromise(of: ConnectionEnd.self)
    let handler = ClientSocketHandler(
      receiver: receiver, messageBytesMax: request.messageBytesMax,
      keepAlive: request.keepAlive.map { .nanoseconds($0.nanoseconds) }, ended: end)
    do {
      try channel.pipeline.syncOperations.addHandler(handler)
    } catch {
      end.succeed(.lost(reason: reason(error)))  // A promise that nobody keeps would be a defect of its own.
      throw error
    }
    return ClientSocket(channel: channel, handler: handler, end: end.futureResult)
  }

  private func tlsContext() throws -> NIOSSLContext {
    try context.withLock { context in
      if let context { return context }
      var configuration = TLSConfiguration.makeClientConfiguration()
      configuration.trustRoots = trustRoots
      configuration.applicationProtocols = ["http/1.1"]
      let made = try NIOSSLContext(configuration: configuration)
      context = made
      return made
    }
  }

  /// The name that the certificate is compared with, and that the server is told; nil for an address.
  private var serverName: String? { isAddress ? nil : host }
  private var isAddress: Bool {
    host.contains(":") || host.utf8.allSatisfy { $0 == 0x2E || (0x30...0x39).contains($0) }
  }
  private var hostField: String {
    let name = host.contains(":") ? "[\(host)]" : host
    return port == (isTLS ? 443 : 80) ? name : "\(name):\(port)"
  }

  private static func failure(_ error: any Error) -> RelayClientError {
    switch error {
    case ChannelError.connectTimeout: .timedOut
    case let error as NIOHTTPClientUpgradeError:
      .unexpectedAnswer(status: 101, reason: "it is no upgrade to a WebSocket: \(error)")
    default: .unreachable(reason: reason(error))
    }
  }

  /// In words, without anything that was sent.
  static func reason(_ error: any Error) -> String {
    switch error {
    case let error as IOError: String(cString: strerror(error.errnoCode))
    case let error as NIOConnectionError:
      error.connectionErrors.first.map { reason($0.error) } ?? "its name has no address"
    case ChannelError.ioOnClosedChannel, ChannelError.alreadyClosed, ChannelError.inappropriateOperationForState:
      "it closed the connection"
    default: String(describing: error)
    }
  }
}

extension NIOSSLTrustRoots {
  /// - Parameter pem: text of certificates; nil trusts the system's.
  /// - Throws: `.invalidArgument` for a text that is none.
  init(pem: String?) throws(RelayClientError) {
    guard let pem else {
      self = .default
      return
    }
    do {
      self = .certificates(try NIOSSLCertificate.fromPEMBytes(Array(pem.utf8)))
    } catch {
      throw .invalidArgument("the trust roots are not certificates in PEM")
    }
  }
}
