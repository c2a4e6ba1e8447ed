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
      Invite.self, Accept.self, List.self, Suspend.self, Resume.self, Remove.self, Test.self,
    ])

  struct Invite: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Make an invitation for another operator.",
      discussion: """
        Prints one word, good for one peering. Hand it over where nobody else reads it; the other operator runs \
        `relay peer accept` with it while this relay serves.
        """)
    @OptionGroup var configuration: ConfigurationOption
    @Option(help: "Hours until it expires, 1 to 720.") var hours = 24
    @Option(
      help: ArgumentHelp("What each side may ask of the other.", valueName: "messages,keys,directory,attachments"))
    var scope = "messages,keys,directory,attachments"
    @Flag(help: "Print JSON.") var json = false

    private struct Printed: Encodable {
      let invitation: String
      let expires: String
    }

    func validate() throws {
      guard (1...720).contains(hours) else { throw ValidationError("--hours must be 1 to 720.") }
      _ = try scopes()
    }

    func run() async throws {
      try await withPeering(configuration) { peering, _ in
        let code = try await peering.invite(validFor: .seconds(hours * 3600), scopes: try scopes())
        if json { return try Output.json(Printed(invitation: code.text, expires: code.expires.iso8601)) }
        Output.note("One peering, until \(code.expires.iso8601). The other operator runs `relay peer accept` with:")
        Output.line(code.text)
      }
    }

    private func scopes() throws -> Set<Peer.Scope> {
      let names = scope.split(separator: ",").map { $0.drop { $0 == " " } }
      let scopes = try names.map { name in
        guard let scope = Peer.Scope(rawValue: String(name)) else {
          let known = Peer.Scope.allCases.map(\.rawValue).joined(separator: ", ")
          throw ValidationError("--scope knows \(known), not \"\(name)\".")
        }
        return scope
      }
      guard !scopes.isEmpty else { throw ValidationError("--scope must name at least one scope.") }
      return Set(scopes)
    }
  }

  struct Accept: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Redeem another operator's invitation.",
      discussion: "Exits with 0 when both sides list each other as active, else says why not. Repeating it is safe.")
    @OptionGroup var configuration: ConfigurationOption
    @Argument(help: "The word that `relay peer invite` printed.") var invitation: String
    @Flag(help: "Print JSON.") var json = false

    func run() async throws {
      try await withPeering(configuration) { peering, _ in
        let peer = try await peering.accept(invitation)
        if json { return try Output.json(Row(peer)) }
        Output.line("\(peer.name) at \(peer.url) and this relay are peers.")
        Output.line("Both operators see these words; compare them over another channel:")
        Output.line("  \(peer.words)")
      }
    }
  }

  struct List: AsyncParsableCommand {
    static let configuration = CommandConfiguration(abstract: "List all peers.")
    @OptionGroup var configuration: ConfigurationOption
    @Flag(help: "Print JSON.") var json = false

    func run() async throws {
      try await withPeers(configuration) { storage, settings in
        // Without peers there is nothing that needs our own certificate.
        let peers = try await storage.peers().isEmpty ? [] : try peering(settings, storage).list()
        if json { return try Output.json(peers.map(Row.init)) }
        if peers.isEmpty { return Output.line("No peers. `relay peer invite` makes an invitation for one.") }
        Output.table(
          [["NAME", "STATE", "URL", "CERTIFICATE UNTIL", "WORDS"]]
            + peers.map {
              [$0.name.text, $0.state.rawValue, $0.url, $0.certificateExpires.iso8601, $0.words.description]
            })
      }
    }
  }

  struct Suspend: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Stop federating with a peer, without forgetting it.",
      discussion: "Its requests are refused, ours to it are not sent, its contacts are not found.")
    @OptionGroup var configuration: ConfigurationOption
    @Argument(help: "The peer's name.") var name: String

    func run() async throws {
      try await change(configuration, name, to: "suspended") { try await $0.setPeerState(.suspended, of: $1) }
    }
  }

  struct Resume: AsyncParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Federate with a suspended peer again.")
    @OptionGroup var configuration: ConfigurationOption
    @Argument(help: "The peer's name.") var name: String

    func run() async throws {
      try await change(configuration, name, to: "active") { try await $0.setPeerState(.active, of: $1) }
    }
  }

  struct Remove: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Forget a peer and its contacts.", discussion: "To federate again, one side invites anew.")
    @OptionGroup var configuration: ConfigurationOption
    @Argument(help: "The peer's name.") var name: String

    func run() async throws {
      try await change(configuration, name, to: "removed") { try await $0.removePeer($1) }
    }
  }

  struct Test: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Walk the way to a peer step by step, naming what fails and the remedy.")
    @OptionGroup var configuration: ConfigurationOption
    @Argument(help: "The peer's name.") var name: String
    @Flag(help: "Print JSON.") var json = false

    private struct Step: Encodable {
      let step: String
      let passed: Bool
      let text: String
      let remedy: String?
      let milliseconds: Double
    }

    func run() async throws {
      try await withPeers(configuration) { storage, settings in
        guard let peer = try await storage.peers().first(where: { $0.name.text == name }).flatMap(KnownPeer.init) else {
          throw CommandFailure(unknown(name))
        }
        var steps: [Step] = []
        let passed = await PeerProbe(credentials: try credentials(settings), clock: .system).run(peer) { result in
          let step = Step(
            step: result.step.rawValue, passed: result.isPassed, text: result.text, remedy: result.remedy,
            milliseconds: (result.duration / .milliseconds(1) * 10).rounded() / 10)
          steps.append(step)
          if !json { show(step) }
        }
        if json { try Output.json(steps) }
        if !passed { throw ExitCode.failure }
      }
    }

    private func show(_ step: Step) {
      Output.line("\(step.passed ? "ok  " : "FAIL")  \(step.step)  \(step.text)  (\(step.milliseconds) ms)")
      if let remedy = step.remedy { Output.line("      \(remedy)") }
    }
  }

  private struct Row: Encodable {
    let name: String
    let url: String
    let state: String
    let scopes: [String]
    let words: String
    let certificateExpires: String

    init(_ peer: PeerDescription) {
      name = peer.name.text
      url = peer.url
      state = peer.state.rawValue
      scopes = peer.scopes.map(\.rawValue)
      words = peer.words.description
      certificateExpires = peer.certificateExpires.iso8601
    }
  }
}

private func unknown(_ name: String) -> String { "There is no peer \"\(name)\": `relay peer list` shows them all." }

private func withPeers(
  _ option: ConfigurationOption, _ body: (any Storage, RelayConfiguration) async throws -> Void
) async throws {
  let settings = try option.load().configuration
  LogOutput.bootstrap(settings.log)
  try await withStorage(settings) { storage in try await body(storage, settings) }
}

private func withPeering(
  _ option: ConfigurationOption, _ body: (PeeringService, any Storage) async throws -> Void
) async throws {
  try await withPeers(option) { storage, settings in try await body(try peering(settings, storage), storage) }
}

/// Running processes see what a command changes by their poll; the command itself sends no signals.
private func peering(_ settings: RelayConfiguration, _ storage: any Storage) throws -> PeeringService {
  PeeringService(
    endpoint: try settings.federation.endpoint("peers must know where to reach this relay"),
    credentials: try credentials(settings), store: storage,
    signals: LocalCoordination(buckets: settings.limits, clock: .system), clock: .system)
}

private func credentials(_ settings: RelayConfiguration) throws -> FederationCredentials {
  try IdentityFolder(path: settings.federation.directory).load(for: settings.name)
}

private func change(
  _ option: ConfigurationOption, _ text: String, to outcome: String,
  _ body: (any Storage, RelayName) async throws -> Bool
) async throws {
  try await withPeers(option) { storage, _ in
    guard let name = RelayName(text), try await body(storage, name) else { throw CommandFailure(unknown(text)) }
    Output.line("\(name) is \(outcome).")
  }
}
