import Logging
import NIOCore
import Operations
import RelayCore
import ServiceLifecycle
import Synchronization

/// A listener whose port may be taken: then it says so in the operator's words.
struct Listening: Service {
  private let name: String
  private let host: String
  private let port: Int
  private let listener: any Service

  /// - Parameter name: the prefix of its keys in the configuration.
  init(_ name: String, _ host: String, _ port: Int, _ listener: any Service) {
    self.name = name
    self.host = host
    self.port = port
    self.listener = listener
  }

  func run() async throws {
    do {
      try await listener.run()
    } catch let error as IOError {
      throw CommandFailure(
        "\(name).host and \(name).port: \(host):\(port) cannot be listened on (\(error)). "
          + "Stop what listens there, or choose another port.")
    }
  }
}

/// Whether a listener accepts connections: until then the relay is not ready.
final class ListenerState: Sendable {
  private let isListening = Atomic(false)

  /// - Parameter name: the prefix of its keys in the configuration.
  init(_ name: String, in readiness: Readiness) {
    readiness.add(name) { [weak self] in
      self?.isListening.load(ordering: .acquiring) == true ? nil : "not listening yet"
    }
  }

  func began() { isListening.store(true, ordering: .releasing) }
}

/// Keeps partitions ahead of time and drops what is past retention.
struct Maintenance: Service {
  let store: any MessageStore
  let retention: Duration
  let logger: Logger

  private static let interval = Duration.seconds(3600)

  func run() async throws {
    await cancelWhenGracefulShutdown {
      while !Task.isCancelled {
        // Only cancellation throws here, and the loop's condition sees it.
        try? await Task.sleep(for: Self.interval)
        if !Task.isCancelled { await runOnce() }
      }
    }
  }

  /// A failure is no reason not to serve: appends make the room they need.
  func runOnce() async {
    do throws(StoreError) {
      let dropped = try await store.maintain(retention: retention)
      if dropped > 0 { logger.notice("messages past retention dropped", metadata: ["days": "\(dropped)"]) }
    } catch {
      logger.warning("maintenance of the message store failed", metadata: ["error": "\(error)"])
    }
  }
}

/// The courier of a relay without federation: every relay's name is unknown.
struct NoPeers: Courier {
  func preKeys(
    of account: AccountNumber, devices: DeviceSelector, version: PreKeyVersion, at relay: RelayName
  ) async throws(Problem) -> [DrawnPreKey] {
    throw Problem(.notFound)
  }
  func sendReceipt(
    for timestamp: Timestamp, from source: DeviceAddress, to destination: AccountNumber, at relay: RelayName
  ) async throws(Problem) {
    throw Problem(.notFound)
  }
  func attachmentURL(of id: AttachmentID, at relay: RelayName) async throws(Problem) -> String {
    throw Problem(.notFound)
  }
  func submit(_ submission: Submission, from source: DeviceAddress, to relay: RelayName) async throws(Problem) {
    throw Problem(.notFound)
  }
}
