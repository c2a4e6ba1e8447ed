import ArgumentParser
import Federation
import RelayConfiguration
import RelayCore
import Storage

struct PeerCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "peer", abstract: "The relays that this one federates with.",
    discussion: "Works on the stores while `relay serve` runs on them; running processes follow within a second.",
    subcommands: [
      Invite.self, Invitations.self, Withdraw.self, Accept.self, List.self, Show.self, Set.self, Suspend.self,
      Resume.self, Remove.self, Test.self,
      Budget.self,
    ])

  static func unknown(_ name: String) -> CommandFailure {
    CommandFailure("There is no peer \"\(name)\": `relay peer list` shows them all.")
  }

  /// The stores, for what a command does with peers.
  static func withPeers(
    _ option: ConfigurationOption, noting note: AuditNote? = nil,
    _ body: (any Storage, RelayConfiguration) async throws -> Void
  ) async throws {
    let settings = try option.load().configuration
    LogOutput.bootstrap(settings.log)
    try await withStorage(settings, noting: note) { storage in try await body(storage, settings) }
  }

  static func withPeering(
    _ option: ConfigurationOption, noting note: AuditNote? = nil, _ body: (PeeringService) async throws -> Void
  ) async throws {
    try await withPeers(option, noting: note) { storage, settings in try await body(try peering(settings, storage)) }
  }

  /// The peer called `name`, in whatever state. - Throws: `CommandFailure` when there is none, or it cannot be read.
  static func withPeer(
    _ option: ConfigurationOption, _ name: String, noting note: AuditNote? = nil,
    _ body: (KnownPeer, any Storage, RelayConfiguration) async throws -> Void
  ) async throws {
    try await withPeers(option, noting: note) { storage, settings in
      guard let peer = try await storage.peers().first(where: { $0.name.text == name }) else { throw unknown(name) }
      guard let known = KnownPeer(peer) else {
        throw CommandFailure("The peer \"\(name)\" is stored with a CA that cannot be read: remove it and peer anew.")
      }
      try await body(known, storage, settings)
    }
  }

  /// Running processes see what a command changes by their poll; the command itself sends no signals.
  static func peering(_ settings: RelayConfiguration, _ storage: any Storage) throws -> PeeringService {
    PeeringService(
      endpoint: try settings.federation.endpoint("peers must know where to reach this relay"),
      credentials: try credentials(settings), addresses: settings.federation.peerAddresses, store: storage,
      signals: LocalCoordination(buckets: settings.limits, clock: .system), clock: .system)
  }

  static func credentials(_ settings: RelayConfiguration) throws -> FederationCredentials {
    try IdentityFolder(path: settings.federation.directory).load(for: settings.name)
  }
}

extension PeerCommand {
  /// A peer's scopes as an option: names with commas between them, not none.
  struct Scopes: CustomStringConvertible {
    static let valueName = Peer.Scope.allCases.map(\.rawValue).joined(separator: ",")
    let values: Swift.Set<Peer.Scope>

    init(values: Swift.Set<Peer.Scope>) { self.values = values }

    /// - Throws: `ValidationError`, which names all scopes that there are.
    init(parsing argument: String) throws {
      let names = argument.split(separator: ",").map { String($0.drop { $0 == " " }) }
      let unknown = names.filter { Peer.Scope(rawValue: $0) == nil }
      guard unknown.isEmpty, !names.isEmpty else {
        let fault = unknown.first.map { "There is no scope \"\($0)\"" } ?? "No scope is named"
        throw ValidationError("\(fault): give some of \(Self.valueName).")
      }
      values = Swift.Set(names.compactMap { Peer.Scope(rawValue: $0) })
    }

    var description: String { values.isEmpty ? "nothing" : values.sorted().map(\.rawValue).joined(separator: ",") }
  }
}
