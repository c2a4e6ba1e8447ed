import Directory
import Logging
import NIOSSL
import RelayConfiguration
import RelayCore
import RelayHTTP
import ServiceLifecycle

/// The directory's part of the graph in a process that leaves it to others, each with a part of it.
struct PartsGraph {
  let lookUps: ContactLookUps
  /// The services that run as long as the process, in the order of starting.
  let services: [any Service]

  /// - Parameter locations: every part, each once or more.
  init(
    _ locations: [PartLocation], _ settings: RelayConfiguration.Directory, storage: any Storage, logger: Logger
  ) async throws(StoreError) {
    let parts = DirectoryParts(
      locations.map(\.address),
      client: PartClient(key: try await PartKey.read(storage), tls: settings.partsTLS), logger: logger)
    let keys = settings.isOblivious ? ObliviousKeyWatch(store: storage, logger: logger) : nil
    lookUps = ContactLookUps(
      source: parts, oblivious: keys.map { ObliviousDirectory(keys: $0, store: storage, clock: .system) },
      settings: settings)
    services = [parts] + (keys.map { [$0] } ?? [])
  }
}

/// The listener of a process with a part of the directory, for others to ask.
struct PartListenerGraph {
  let services: [any Service]

  /// - Throws: `CommandFailure` when certificate and key cannot be used.
  init(
    _ settings: RelayConfiguration.Directory, at port: Int, view: DirectoryView, storage: any Storage,
    drain: DrainState, state: ListenerState, logger: Logger
  ) async throws {
    let certificate = try settings.tls.map {
      try ServerCertificate.reloading($0, keys: "directory.tls", protocols: ["http/1.1"], logger: logger)
    }
    let listener = PartListener(
      host: settings.host, port: port, view: view, key: try await PartKey.read(storage), tls: certificate?.current,
      drain: drain
    ) { bound in
      state.began()
      logger.notice(
        "serving a part of the directory",
        metadata: [
          "part": "\(view.part.text)", "address": "\(settings.host):\(bound)", "tls": "\(settings.tls != nil)",
        ])
    }
    services = (certificate?.services ?? []) + [Listening("directory", settings.host, port, listener)]
  }
}

/// The key by which processes of one store know each other: drawn by the first that needs it.
enum PartKey {
  static func read(_ storage: any ServerSecretStore) async throws(StoreError) -> SecretBytes {
    try await storage.serverKey(.directoryParts) {
      SecretBytes((0..<ServerKeyName.directoryParts.byteCount).map { _ in UInt8.random(in: .min ... .max) })
    }
  }
}

extension PartLocation {
  var address: PartAddress { PartAddress(part, host: url.host, port: url.port, isSecure: url.isSecure) }
}

extension RelayConfiguration.Directory {
  /// How certificates of processes with parts are looked at; nil: as usual.
  var partsTLS: TLSConfiguration? {
    guard let authority else { return nil }
    var configuration = TLSConfiguration.makeClientConfiguration()
    configuration.minimumTLSVersion = .tlsv12
    configuration.trustRoots = .file(authority)
    return configuration
  }
}
