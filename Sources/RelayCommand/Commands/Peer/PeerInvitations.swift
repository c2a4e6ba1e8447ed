import ArgumentParser
import Federation
import RelayCore

extension PeerCommand {
  struct Invite: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Make an invitation for another operator.",
      discussion: """
        Prints one word, good for one peering. Hand it over where nobody else reads it; the other operator runs \
        `relay peer accept` with it while this relay serves.
        """)
    @OptionGroup var configuration: ConfigurationOption
    @Option(help: "Hours until it expires, 1 to 720.") var hours = 24
    @Option(help: ArgumentHelp("What each side may ask of the other.", valueName: Scopes.valueName))
    var scope = Scopes(values: Peer.Scope.usual)
    @Flag(help: "Print JSON.") var json = false

    private struct Printed: Encodable {
      let invitation: String
      let expires: String
    }

    func validate() throws {
      guard (1...720).contains(hours) else { throw ValidationError("--hours must be 1 to 720.") }
    }

    func run() async throws {
      try await PeerCommand.withPeering(configuration) { peering in
        let code = try await peering.invite(validFor: .seconds(hours * 3600), scopes: scope.values)
        if json { return try Output.json(Printed(invitation: code.text, expires: code.expires.iso8601)) }
        Output.note("One peering, until \(code.expires.iso8601). The other operator runs `relay peer accept` with:")
        Output.line(code.text)
      }
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
      try await PeerCommand.withPeering(configuration) { peering in
        let peer = try await peering.accept(invitation)
        if json { return try Output.json(PeerRow(peer)) }
        Output.line("\(peer.name) at \(peer.url) and this relay are peers.")
        Output.line("Both operators see these words; compare them over another channel:")
        Output.line("  \(peer.words)")
      }
    }
  }

  /// What a peer may ask of us, as an option: names with commas between them, not none.
  struct Scopes: ExpressibleByArgument {
    static let valueName = Peer.Scope.allCases.map(\.rawValue).joined(separator: ",")
    let values: Swift.Set<Peer.Scope>

    init(values: Swift.Set<Peer.Scope>) { self.values = values }

    init?(argument: String) {
      let names = argument.split(separator: ",").map { String($0.drop { $0 == " " }) }
      let known = names.compactMap { Peer.Scope(rawValue: $0) }
      guard !known.isEmpty, known.count == names.count else { return nil }
      values = Swift.Set(known)
    }

    var defaultValueDescription: String { values.sorted().map(\.rawValue).joined(separator: ",") }
  }
}
