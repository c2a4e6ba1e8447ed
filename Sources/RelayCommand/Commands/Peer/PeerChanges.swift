import ArgumentParser
import Federation
import RelayCore

extension PeerCommand {
  struct Set: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "set",
      abstract: "Change what is agreed with a peer, on this side.",
      discussion: """
        Give at least one option. --scope is what the peer may ask of this relay. With --hold on, messages for a peer that \
        cannot be reached are accepted and kept until it is back (`relay queue`); what is held when it is switched off is \
        still delivered. --contacts says how its accounts are found: copy keeps its listing here, query asks it at each \
        look-up, none finds nobody. With --implicit off, requests of clients that name no relay are not carried to it. \
        --url is where it listens from now on: it must prove there that it is this peer, unless --force is given.
        """)
    @OptionGroup var configuration: ConfigurationOption
    @Argument(help: "The peer's name.") var name: String
    @Option(
      help: ArgumentHelp("What it may ask of us.", valueName: Scopes.valueName), transform: Scopes.init(parsing:))
    var scope: Scopes?
    @Option(help: ArgumentHelp("Where it listens for us.", valueName: "https://HOST:PORT")) var url: String?
    @Flag(help: "Store the URL although the peer was not found there.") var force = false
    @Option(help: ArgumentHelp("Whether messages wait for it.", valueName: "on|off")) var hold: Switch?
    @Option(help: ArgumentHelp("How its accounts are found.", valueName: "copy|query|none")) var contacts:
      PeerPolicy.Contacts?
    @Option(help: ArgumentHelp("Whether clients reach it without naming it.", valueName: "on|off")) var implicit:
      Switch?

    enum Switch: String, ExpressibleByArgument { case on, off }

    func validate() throws {
      guard scope != nil || url != nil || hold != nil || contacts != nil || implicit != nil else {
        throw ValidationError("Give --scope, --url, --hold, --contacts or --implicit.")
      }
      guard url.map({ PeerEndpoint($0) != nil }) ?? true else {
        throw ValidationError("--url must be https://HOST or https://HOST:PORT, without a path.")
      }
      guard !force || url != nil else { throw ValidationError("--force goes with --url.") }
    }

    func run() async throws {
      try await PeerCommand.withPeer(configuration, name, noting: AuditNote("peer set", on: name)) {
        peer, storage, settings in
        let endpoint = url.flatMap { PeerEndpoint($0) }
        // Before anything is changed.
        if let endpoint, !force { try await PeerCommand.peering(settings, storage).verify(peer, at: endpoint) }
        var isStored = true
        if let endpoint { isStored = try await storage.setPeerURL(endpoint.text, of: peer.name) }
        if let scope { isStored = try await storage.setPeerScopes(scope.values, of: peer.name) && isStored }
        // Its claims end with another way than a copy: what passes is counted while they are there.
        if let contacts, contacts != .copy, contacts != peer.peer.policy.contacts, peer.peer.hasStandingClaims {
          try await PeerCommand.notePasses(of: peer.name, storage)
        }
        let change = PeerPolicyChange(
          holdsMessages: hold.map { $0 == .on }, contacts: contacts, routesImplicitly: implicit.map { $0 == .on })
        if !change.isEmpty { isStored = try await storage.changePeerPolicy(change, of: peer.name) && isStored }
        // Removed since it was read.
        guard isStored else { throw PeerCommand.unknown(name) }
        Output.line("\(peer.name) is changed.")
      }
    }
  }

  struct Suspend: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "suspend",
      abstract: "Stop federating with a peer, without forgetting it.",
      discussion: """
        Its requests are refused, its connections are closed, ours to it are not sent, its contacts are not found. The peer \
        is not told why. With --until, a relay that serves makes it active again at that time, by itself. Said again, the \
        reason and the end are those of the last time.
        """)
    @OptionGroup var configuration: ConfigurationOption
    @Argument(help: "The peer's name.") var name: String
    @Option(help: "Why, for your own people: `relay peer list` shows it.") var reason: String?
    @Option(
      help: ArgumentHelp(
        "Until when: a day or a time in UTC, such as 2026-12-01 or 2026-12-01T08:00, or for how long, such as 3d, 12h or 30m.",
        valueName: "time"))
    var until: String?

    func validate() throws {
      guard reason.map({ (1...200).contains($0.utf8.count) && !$0.contains(where: \.isNewline) }) ?? true else {
        throw ValidationError("--reason is one line of at most 200 bytes.")
      }
      _ = try end()
    }

    private func end() throws -> Timestamp? {
      guard let until else { return nil }
      let now = WallClock.system.now()
      guard let end = Timestamp(moment: until, from: now) else {
        throw ValidationError("--until takes 2026-12-01, 2026-12-01T08:00, or 3d, 12h, 30m.")
      }
      guard end > now else { throw ValidationError("--until is past already.") }
      return end
    }

    func run() async throws {
      let suspension = PeerSuspension(reason: reason, until: try end())
      try await PeerCommand.change(configuration, name, by: "peer suspend", to: "suspended") {
        try await PeerCommand.setState(.suspended, of: $1, $0, suspension) { PeerCommand.tell(passed: $0, $1) }
      }
    }
  }

  struct Resume: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "resume", abstract: "Federate with a suspended peer again.")
    @OptionGroup var configuration: ConfigurationOption
    @Argument(help: "The peer's name.") var name: String

    func run() async throws {
      try await PeerCommand.change(configuration, name, by: "peer resume", to: "active") {
        try await PeerCommand.setState(.active, of: $1, $0) { PeerCommand.tell(passed: $0, $1) }
      }
    }
  }

  struct Remove: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "remove",
      abstract: "Forget a peer and its contacts.",
      discussion: "To federate again, one side invites anew. Refuses while messages are held for the peer.")
    @OptionGroup var configuration: ConfigurationOption
    @Argument(help: "The peer's name.") var name: String

    func run() async throws {
      try await PeerCommand.change(configuration, name, by: "peer remove", to: "removed") { storage, peer in
        // Before it is suspended: what can still be delivered should be.
        if let held = try await storage.outboxUsage().first(where: { $0.relay == peer }), held.messages > 0 {
          throw Self.waiting("\(held.messages) messages", for: peer)
        }
        // Its claims rest first, so that what passes is counted while they are there.
        let known = try await storage.peers().first { $0.name == peer }
        if let known, known.hasStandingClaims, try await storage.setPeerState(.suspended, of: peer) {
          try await PeerCommand.notePasses(of: peer, storage)
        }
        switch try await storage.removePeer(peer) {
        case .removed: return true
        case .unknown: return false
        case .messagesWait: throw Self.waiting("\(peer) is suspended, but messages", for: peer)
        }
      }
    }

    private static func waiting(_ what: String, for peer: RelayName) -> CommandFailure {
      CommandFailure(
        "\(what) are held for \(peer): deliver them first, or give them up with "
          + "`relay queue drop --peer \(peer) --all`, which tells their senders.")
    }
  }

  /// - Parameter passed: is called with the peer and how many contacts pass, where some do.
  /// - Returns: false when there is no such peer.
  static func setState(
    _ state: Peer.State, of name: RelayName, _ storage: any Storage, _ suspension: PeerSuspension? = nil,
    passed: (RelayName, Int) -> Void
  ) async throws -> Bool {
    let before = try await storage.peers().first { $0.name == name }
    guard try await storage.setPeerState(state, of: name, suspension) else { return false }
    if let before, before.state != state, before.policy.contacts != .none {
      let count = try await storage.notePasses(of: name)
      if count > 0 { passed(name, count) }
    }
    return true
  }

  /// Says how many contacts pass, since the claims of `peer` rest, stand again, or end.
  private static func notePasses(of peer: RelayName, _ storage: any Storage) async throws {
    let passed = try await storage.notePasses(of: peer)
    if passed > 0 { tell(passed: peer, passed) }
  }

  private static func tell(passed peer: RelayName, _ count: Int) {
    Output.note(
      """
      Contacts that others claim too, and that pass to or from \(peer): \(count). `relay directory owner` decides whose \
      one is.
      """)
  }

  private static func change(
    _ option: ConfigurationOption, _ text: String, by action: String, to outcome: String,
    _ body: (any Storage, RelayName) async throws -> Bool
  ) async throws {
    try await withPeers(option, noting: AuditNote(action, on: text)) { storage, _ in
      guard let name = RelayName(text), try await body(storage, name) else { throw unknown(text) }
      Output.line("\(name) is \(outcome).")
    }
  }
}

extension PeerPolicy.Contacts: ExpressibleByArgument {}

extension Peer {
  fileprivate var hasStandingClaims: Bool { state == .active && policy.contacts != .none }
}
