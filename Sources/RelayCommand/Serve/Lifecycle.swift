import Logging
import Operations
import RelayCore
import RelayHTTP
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
    } catch {
      guard let fault = ListenFault(error, at: host, port, keys: name) else { throw error }
      throw CommandFailure("\(fault.text) \(fault.remedy)")
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

/// The courier of a relay without federation: every relay's name is unknown.
struct NoPeers: Courier, HomeFinder {
  func home(of number: AccountNumber) async throws(Problem) -> RelayName? { nil }
  func home(of attachment: AttachmentID) -> RelayName? { nil }
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
