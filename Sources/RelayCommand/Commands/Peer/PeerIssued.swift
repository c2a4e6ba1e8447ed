import ArgumentParser
import Federation
import RelayCore

extension PeerCommand {
  struct Invitations: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "invitations",
      abstract: "List this relay's invitations that have not ended.",
      discussion: """
        The invitation itself is not kept, and cannot be shown again: withdraw it and make another. One that is used can \
        be used again by the same relay alone, which changes nothing.
        """)
    @OptionGroup var configuration: ConfigurationOption
    @Flag(help: "Print JSON.") var json = false

    private struct Row: Encodable {
      let id: String
      let expires: String
      let scopes: [String]
      let state: String
      /// The peer that redeemed it, where it is one still.
      let usedBy: String?
    }

    func run() async throws {
      try await PeerCommand.withPeers(configuration) { storage, _ in
        let peers = try await storage.peers().compactMap { KnownPeer($0) }
        let rows = try await storage.invitations(now: WallClock.system.now()).map { issued in
          let holder = issued.redeemedBy.flatMap { authority in peers.first { $0.fingerprints.contains(authority) } }
          return Row(
            id: issued.invitation.id, expires: issued.invitation.expires.iso8601,
            scopes: issued.invitation.scopes.sorted().map(\.rawValue),
            state: issued.redeemedBy == nil ? "open" : "used",
            usedBy: holder?.name.text)
        }
        if json { return try Output.json(rows) }
        if rows.isEmpty { return Output.line("No invitations. `relay peer invite` makes one.") }
        Output.table(
          [["ID", "STATE", "EXPIRES", "USED BY", "SCOPES"]]
            + rows.map { [$0.id, $0.state, $0.expires, $0.usedBy ?? "-", $0.scopes.joined(separator: ",")] })
      }
    }
  }

  struct Withdraw: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "withdraw",
      abstract: "Take an invitation back that has not been used.",
      discussion:
        "Nobody can redeem it from then on. A peer that came by it stays: `relay peer remove` ends the peering.")
    @OptionGroup var configuration: ConfigurationOption
    @Argument(help: "Its id, as `relay peer invitations` shows it.") var id: String?
    @Flag(help: "All that are open.") var all = false

    func validate() throws {
      guard all == (id == nil) else { throw ValidationError("Give an id, or --all for all that are open.") }
    }

    func run() async throws {
      try await PeerCommand.withPeers(configuration, noting: AuditNote("peer withdraw", on: id ?? "--all")) {
        storage, _ in
        let issued = try await storage.invitations(now: WallClock.system.now())
        let meant = issued.filter { all ? $0.redeemedBy == nil : $0.invitation.id == id }
        guard !meant.isEmpty else {
          throw CommandFailure(
            all
              ? "No invitation is open."
              : "There is no invitation \"\(id ?? "")\": `relay peer invitations` shows them.")
        }
        if !all, meant.contains(where: { $0.redeemedBy != nil }) {
          throw CommandFailure("It is used already: `relay peer suspend` or `relay peer remove` ends the peering.")
        }
        var count = 0
        for invitation in meant where try await storage.withdrawInvitation(secretHash: invitation.invitation.secretHash)
        {
          count += 1
        }
        Output.line(count == 1 ? "It is withdrawn." : "\(count) are withdrawn.")
      }
    }
  }
}
