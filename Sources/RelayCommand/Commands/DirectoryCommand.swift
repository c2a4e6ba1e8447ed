import ArgumentParser
import Relay
import RelayCore

struct DirectoryCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "directory", abstract: "Which relay a contact belongs to.", subcommands: [Owner.self])

  struct Owner: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "owner", abstract: "Show which peer has a contact, or decide it.",
      discussion: """
        A contact stays with the peer that claimed it first, for 30 days after that peer lists it no longer. --peer puts \
        another one first, at once and for good: when it has verified with its user that the number is his. A number \
        that has an account here is this relay's, whatever is decided. Running processes follow within a minute. Give - \
        to read the number from standard input.
        """)
    @OptionGroup var configuration: ConfigurationOption
    @OptionGroup var number: NumberArgument
    @Option(help: "The peer that has the contact from now on.") var peer: String?
    @Flag(help: "Show who claims the contact.") var show = false
    @Flag(help: "Print JSON.") var json = false

    func validate() throws {
      guard show || peer != nil else { throw ValidationError("Give --show, or --peer with the peer's name.") }
    }

    func run() async throws {
      let number = try number.read()
      let token = ContactTokens.token(of: number)
      try await withStorage(configuration) { storage in
        if let peer {
          try await storage.noting(AuditNote("directory owner --peer \(peer)", on: .account(number))) {
            try await decide(token, peer, storage)
          }
        }
        let claims = try await storage.claims(to: token)
        try print(Result(isLocal: try await storage.account(number) != nil, claims: claims))
      }
    }

    private func decide(_ token: ContactToken, _ peer: String, _ storage: any Storage) async throws {
      guard let known = try await storage.peers().first(where: { $0.name.text == peer }) else {
        throw PeerCommand.unknown(peer)
      }
      guard known.state == .active, known.policy.contacts != .none else {
        throw CommandFailure(
          "The claims of \(peer) rest: `relay peer resume \(peer)`, or `relay peer set \(peer) --contacts copy`, first."
        )
      }
      let former = try await storage.setContactOwner(of: token, to: known.name)
      if former == known.name {
        Output.note("\(peer) has the contact already.")
      } else {
        Output.note("The contact has passed\(former.map { " from \($0)" } ?? "") to \(peer).")
      }
    }

    private func print(_ result: Result) throws {
      if json { return try Output.json(result) }
      if result.isLocal { Output.line("The number has an account here: it is no peer's.") }
      if result.claims.isEmpty { return Output.line("No peer claims it.") }
      Output.table(
        [["PEER", "HAS IT", "CLAIMED SINCE", "LISTED"]]
          + result.claims.map { [$0.peer, $0.has ? "yes" : "no", $0.since, $0.listed] })
    }

    private struct Result: Encodable {
      struct Claim: Encodable {
        let peer: String
        let has: Bool
        let since: String
        let unlistedSince: String?

        var listed: String { unlistedSince.map { "not since \($0)" } ?? "yes" }
      }
      /// Whether the number has an account here.
      let isLocal: Bool
      /// All claims; the owner's comes first.
      let claims: [Claim]

      init(isLocal: Bool, claims: [ContactClaim]) {
        self.isLocal = isLocal
        let owner = isLocal ? nil : claims.first { $0.stands }?.peer
        self.claims = claims.map {
          Claim(
            peer: $0.peer.text, has: $0.peer == owner, since: $0.since.iso8601, unlistedSince: $0.unlisted?.iso8601)
        }
      }
    }
  }
}
