import AsyncHTTPClient
import Federation
import Foundation
import Logging
import NIOCore
import NIOSSL
import RelayConfiguration
import RelayCore
import Storage

/// The parts of the relay that the checks look at. The stores are opened once for all of them.
struct DoctorSite: Sendable {
  enum Store: Sendable {
    case open(any Storage)
    /// There is no database file, and looking for one must not make it.
    case absent(path: String)
    case failed(String)
  }

  let settings: RelayConfiguration
  let store: Store
  /// nil where limits and signals stay in the process.
  let redis: RedisCoordination?
  /// Why there is none where there should be: a file of its TLS cannot be used.
  let redisFault: String?
  let client: HTTPClient
  /// For finding out who listens at our own addresses: trusts anyone, and is shown nothing.
  let probing: HTTPClient

  init(_ settings: RelayConfiguration) async {
    self.settings = settings
    // The checks report the faults of a connection, so its log is dropped.
    let logger = Logger(label: "relay.doctor") { _ in SwiftLogNoOpLogHandler() }
    store = Self.open(settings, logger)
    do {
      redis = try openCoordination(settings, logger: logger) as? RedisCoordination
      redisFault = nil
    } catch {
      redis = nil
      redisFault = "\(error)"
    }
    var outbound = HTTPClient.Configuration(timeout: .init(connect: .seconds(3), read: .seconds(5)))
    outbound.connectionPool.retryConnectionEstablishment = false
    client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: outbound)
    var trusting = TLSConfiguration.makeClientConfiguration()
    trusting.certificateVerification = .none
    outbound.tlsConfiguration = trusting
    probing = HTTPClient(eventLoopGroupProvider: .singleton, configuration: outbound)
  }

  func close() async {
    await redis?.close()
    if case .open(let storage) = store { await storage.close() }
    // Their connections end with the process at the latest.
    try? await client.shutdown()
    try? await probing.shutdown()
  }

  /// nil when it could not be opened.
  var storage: (any Storage)? { if case .open(let storage) = store { storage } else { nil } }
  /// nil when it does not answer, or has a schema that this build cannot work on: other checks tell why.
  func usableStorage() async -> (any Storage)? {
    guard let storage, case .usable? = try? await storage.compatibility() else { return nil }
    return storage
  }
  /// The finding of checks that need the store, when there is none.
  static let withoutStore = Finding.skipped("not looked at: see the store and its schema")

  /// Our certificates. - Throws: also when federation is off and there are none.
  func credentials() throws -> FederationCredentials { try PeerCommand.credentials(settings) }

  private static func open(_ settings: RelayConfiguration, _ logger: Logger) -> Store {
    if case .sqlite(let path) = settings.storage.location, !FileManager.default.fileExists(atPath: path) {
      return .absent(path: path)
    }
    do {
      return .open(try openStorage(settings, logger: logger))
    } catch {
      return .failed("\(error)")
    }
  }
}
