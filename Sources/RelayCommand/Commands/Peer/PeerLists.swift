import ArgumentParser
import Federation
import RelayCore

extension PeerCommand {
  struct List: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "List all peers.",
      discussion:
        "REACHABLE is what running processes found out last: network, silent, certificate or refused, since when.")
    @OptionGroup var configuration: ConfigurationOption
    @Flag(help: "Print JSON.") var json = false

    func run() async throws {
      try await PeerCommand.withPeers(configuration) { storage, settings in
        // Without peers there is nothing that needs our own certificate.
        let peers = try await storage.peers().isEmpty ? [] : try PeerCommand.peering(settings, storage).list()
        let rows = peers.map(PeerRow.init)
        if json { return try Output.json(rows) }
        if rows.isEmpty { return Output.line("No peers. `relay peer invite` makes an invitation for one.") }
        Output.table(
          [["NAME", "STATE", "REACHABLE", "HOLD", "CONTACTS", "URL", "CERTIFICATE UNTIL", "WORDS"]]
            + rows.map {
              [
                $0.name, $0.state, $0.reachability, $0.hold ? "on" : "off", $0.contacts, $0.url, $0.certificateExpires,
                $0.words,
              ]
            })
      }
    }
  }

  struct Show: AsyncParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Show all that is known of one peer.")
    @OptionGroup var configuration: ConfigurationOption
    @Argument(help: "The peer's name.") var name: String
    @Flag(help: "Print JSON.") var json = false

    func run() async throws {
      try await PeerCommand.withPeer(configuration, name) { peer, _, settings in
        let ours = try PeerCommand.credentials(settings).fingerprint
        let row = PeerRow(PeerDescription(peer, ours: ours))
        if json { return try Output.json(row) }
        Output.table([
          ["name", row.name], ["url", row.url], ["state", row.state], ["reachable", row.reachability],
          ["scopes", row.scopes.joined(separator: ",")], ["hold", row.hold ? "on" : "off"], ["contacts", row.contacts],
          ["words", row.words], ["certificate until", row.certificateExpires],
          ["CA keys", row.authorities.joined(separator: " ")], ["added", row.added],
        ])
      }
    }
  }

  struct Budget: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
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
        let budgets = try await PeerInquiry(credentials: try PeerCommand.credentials(settings)).budgets(of: peer)
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
