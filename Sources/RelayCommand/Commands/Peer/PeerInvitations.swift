import ArgumentParser
import Federation
import RelayCore

extension PeerCommand {
  struct Invite: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "invite",
      abstract: "Make an invitation for another operator.",
      discussion: """
        Prints one word, good for one peering, and beside it what it covers and this relay's own words. Hand it over \
        where nobody else reads it; the other operator runs `relay peer accept` with it while this relay serves.
        """)
    @OptionGroup var configuration: ConfigurationOption
    @Option(help: "Hours until it expires, 1 to 720.") var hours = 24
    @Option(
      help: ArgumentHelp("What each side may ask of the other.", valueName: Scopes.valueName),
      transform: Scopes.init(parsing:))
    var scope = Scopes(values: Peer.Scope.usual)
    @Flag(help: "Print JSON.") var json = false

    private struct Printed: Encodable {
      /// By which `relay peer withdraw` takes it back.
      let id: String
      let invitation: String
      let expires: String
      let scopes: [String]
      let ourWords: String
    }

    func validate() throws {
      guard (1...720).contains(hours) else { throw ValidationError("--hours must be 1 to 720.") }
    }

    func run() async throws {
      try await PeerCommand.withPeering(configuration, noting: AuditNote("peer invite")) { peering in
        let code = try await peering.invite(validFor: .seconds(hours * 3600), scopes: scope.values)
        if json {
          return try Output.json(
            Printed(
              id: code.id, invitation: code.text, expires: code.expires.iso8601,
              scopes: code.scopes.sorted().map(\.rawValue),
              ourWords: peering.ourWords.description))
        }
        Output.note("One peering, until \(code.expires.iso8601). `relay peer withdraw \(code.id)` takes it back.")
        Output.note("  grants them: \(scope)")
        Output.note("  gets from them: \(scope), or what of these they grant")
        Output.note("  our words: \(peering.ourWords)")
        Output.note("The other operator must see these as \"their words\", and runs `relay peer accept` with:")
        Output.line(code.text)
      }
    }
  }

  struct Accept: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "accept",
      abstract: "Redeem another operator's invitation.",
      discussion: """
        Prints what the inviter is granted and what this relay gets, and both relays' words, before anything is stored. \
        --scope grants what both it and the invitation name; without it the invitation's scopes are granted. A relay that \
        is a peer already keeps its scopes, or less. Exits with 0 when both sides list each other as active, else says why \
        not. Repeating it is safe.
        """)
    @OptionGroup var configuration: ConfigurationOption
    @Argument(help: "The word that `relay peer invite` printed.") var invitation: String
    @Option(
      help: ArgumentHelp("What the inviter may ask of this relay at most.", valueName: Scopes.valueName),
      transform: Scopes.init(parsing:))
    var scope: Scopes?
    @Flag(help: "Print JSON.") var json = false

    func run() async throws {
      try await PeerCommand.withPeering(configuration, noting: AuditNote("peer accept")) { peering in
        let offer = try await peering.offer(invitation, scopes: scope?.values)
        show(offer)
        let accepted = try await peering.accept(offer)
        if json { return try Output.json(PeerRow(accepted.peer, gets: accepted.gets)) }
        Output.line("\(offer.name) at \(offer.url) and this relay are peers.")
        if Swift.Set(accepted.gets) != offer.gets {
          Output.line(
            "It grants \(Scopes(values: Swift.Set(accepted.gets))), other than the invitation says: its operator has changed"
              + " that since, or somebody the invitation.")
        }
        Output.line(
          "Compare the words with the other operator over another channel: each must see the other's as these.")
      }
    }

    /// Standard output is the result's alone when that is JSON.
    private func show(_ offer: PeeringOffer) {
      let rows = [
        "The relay \(offer.name) at \(offer.url)\(offer.isPeerAlready ? ", a peer already" : ""):",
        "  grants them: \(Scopes(values: offer.grants))",
        "  gets from them: \(Scopes(values: offer.gets))",
        "  our words: \(offer.ourWords)",
        "  their words: \(offer.theirWords)",
      ]
      for row in rows { json ? Output.note(row) : Output.line(row) }
    }
  }
}
