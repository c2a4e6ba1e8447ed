import ArgumentParser
import Federation
import RelayConfiguration
import RelayCore
import Storage

extension PeerCommand {
  struct List: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "list",
      abstract: "List all peers.",
      discussion: """
        REACHABLE is what running processes found out last: network, silent, certificate or refused, since when. CONTESTED \
        is LISTS/HAS: how many contacts the peer claims that another peer or this relay has, and how many it has that \
        another claims. `relay directory owner` decides whose one is. LEAF UNTIL is the end of the certificate that the \
        peer presents at this moment, - where it cannot be reached or presents another's; CA UNTIL that of its CA. The \
        peer's operator must see "their words" as its own, and ours as its peer's.
        """)
    @OptionGroup var configuration: ConfigurationOption
    @Flag(help: "Print JSON.") var json = false

    func run() async throws {
      try await PeerCommand.withPeers(configuration) { storage, settings in
        let peers = try await storage.peers()
        // Without peers there is nothing that needs our own certificate.
        let rows = try await peers.isEmpty ? [] : describe(peers, storage, settings)
        if json { return try Output.json(rows) }
        if rows.isEmpty { return Output.line("No peers. `relay peer invite` makes an invitation for one.") }
        if let first = rows.first { Output.line("Our words: \(first.ourWords)") }
        let head = [
          "NAME", "STATE", "REACHABLE", "HOLD", "CONTACTS", "CONTESTED", "URL", "LEAF UNTIL", "CA UNTIL", "THEIR WORDS",
        ]
        Output.table(
          [head]
            + rows.map {
              [
                $0.name, $0.fullState, $0.reachability, $0.hold ? "on" : "off", $0.contacts,
                "\($0.contested?.lists ?? 0)/\($0.contested?.has ?? 0)", $0.url, $0.leafExpires ?? "-",
                $0.authorityExpires, $0.theirWords,
              ]
            })
      }
    }

    private func describe(
      _ peers: [Peer], _ storage: any Storage, _ settings: RelayConfiguration
    ) async throws -> [PeerRow] {
      let described = try await PeerCommand.peering(settings, storage).list()
      let contested = try await storage.contestedContacts()
      let leaves = await PresentedLeaves(addresses: settings.federation.peerAddresses).ends(of: peers)
      return described.map { peer in
        var peer = peer
        peer.leafExpires = leaves[peer.name]
        return PeerRow(peer, contested: contested[peer.name] ?? ContestedContacts())
      }
    }
  }

  struct Show: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "show", abstract: "Show all that is known of one peer.")
    @OptionGroup var configuration: ConfigurationOption
    @Argument(help: "The peer's name.") var name: String
    @Flag(help: "Print JSON.") var json = false

    func run() async throws {
      try await PeerCommand.withPeer(configuration, name) { peer, _, settings in
        let ours = try PeerCommand.credentials(settings).fingerprint
        let leaves = await PresentedLeaves(addresses: settings.federation.peerAddresses).ends(of: [peer.peer])
        var described = PeerDescription(peer, ours: ours)
        described.leafExpires = leaves[peer.name]
        let row = PeerRow(described)
        if json { return try Output.json(row) }
        Output.table(row.table)
      }
    }
  }

  struct Budget: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "budget",
      abstract: "Ask a peer what this relay may still do there.",
      discussion:
        "A budget that is used up is answered with 413 until it has filled again; the peer's operator sets them.")
    @OptionGroup var configuration: ConfigurationOption
    @Argument(help: "The peer's name.") var name: String
    @Flag(help: "Print JSON.") var json = false

    private struct Row: Encodable {
      let name: String
      let size: Int64
      let perMinute: Int64
      let space: Int64
    }

    func run() async throws {
      try await PeerCommand.withPeer(configuration, name) { peer, _, settings in
        let inquiry = PeerInquiry(
          credentials: try PeerCommand.credentials(settings), addresses: settings.federation.peerAddresses)
        let budgets = try await inquiry.budgets(of: peer)
        if json {
          return try Output.json(
            budgets.map { Row(name: $0.name, size: $0.size, perMinute: $0.perMinute, space: $0.space) })
        }
        Output.table(
          [["BUDGET", "LEFT", "OF", "FILLS PER MINUTE"]]
            + budgets.map { [$0.name, "\($0.space)", "\($0.size)", "\($0.perMinute)"] })
      }
    }
  }
}
