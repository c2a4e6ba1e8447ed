import ChildProcesses
import Foundation
import RelayClient
import TestSupport
import TestTags
import Testing

/// An operator's work with a peer by `relay peer`, while both relays serve.
@Suite(.tags(.processes)) struct PeerCommandTests {
  private struct Step: Decodable {
    let step: String
    let outcome: String
    let passed: Bool
    let back: Bool
    let text: String
    let remedy: String?
  }

  @Test func `a test passes every step, a message between the probe accounts and the way back included`() async throws {
    try await PeeredSites.with { sites in
      let result = try await sites.alpha.run(["peer", "test", "beta", "--back", "--json"], within: .seconds(90))
      let steps = try result.json([Step].self)
      #expect(result.exit == .code(0), "\(steps)")
      let theirs = [
        "dns", "tcp", "tls", "certificate", "clock", "version", "authorisation", "budget", "prekeys", "message",
        "arrival",
      ]
      // Each operator alone decides about clients that name no relay.
      let ours: [String] = Array(theirs.prefix(7)) + ["implicit"] + Array(theirs.dropFirst(7))
      #expect(steps.map(\.step) == ours + ["reach"] + theirs + ["back"])
      #expect(steps.map(\.back) == Array(repeating: false, count: 12) + Array(repeating: true, count: 12) + [false])
      #expect(Set(steps.map(\.outcome)) == ["ok"], "\(steps)")
      // The probe account takes what came, however often: its mailbox stays empty.
      let again = try await sites.beta.run(["peer", "test", "alpha"], within: .seconds(90))
      #expect(again.exit == .code(0) && again.output.contains("the peer has stored it"), "\(again.output)")
    }
  }

  @Test func `a step that the peering does not cover is skipped, not failed`() async throws {
    try await PeeredSites.with(scope: "directory") { sites in
      let result = try await sites.alpha.run(["peer", "test", "beta", "--json"])
      let steps = try result.json([Step].self)
      #expect(result.exit == .code(0), "\(steps)")
      let probes = steps.filter { ["prekeys", "message", "arrival"].contains($0.step) }
      #expect(probes.map(\.outcome) == ["skip", "skip", "skip"])
      #expect(probes.first?.text.contains("keys") == true && probes.first?.remedy?.contains("--scope") == true)
    }
  }

  @Test func `a suspended peer is told so, with the remedy`() async throws {
    try await PeeredSites.with { sites in
      try await sites.beta.relay("peer", "suspend", "alpha")
      try await eventually("beta refuses") {
        let result = try await sites.alpha.run(["peer", "test", "beta", "--json"])
        let failed = try result.json([Step].self).filter { $0.outcome == "fail" }
        return result.exit == .code(1) && !failed.isEmpty && failed.allSatisfy { $0.remedy != nil }
      }
    }
  }

  @Test func `settings are changed one by one and shown`() async throws {
    struct Row: Decodable {
      let scopes: [String]
      let hold: Bool
      let contacts: String
      let implicit: Bool
      let reachable: Bool
      let authorities: [String]
      let leafExpires: String?
      let authorityExpires: String
    }
    try await PeeredSites.with { sites in
      let alpha = sites.alpha
      try await alpha.relay("peer", "set", "beta", "--hold", "on")
      try await alpha.relay("peer", "set", "beta", "--scope", "keys,lookup", "--contacts", "query")
      let shown = try await alpha.run(["peer", "show", "beta", "--json"]).json(Row.self)
      #expect(shown.scopes == ["keys", "lookup"] && shown.hold && shown.contacts == "query" && shown.reachable)
      #expect(shown.authorities.map(\.count) == [64])
      #expect(shown.implicit)
      try await alpha.relay("peer", "set", "beta", "--implicit", "off")
      let off = try await alpha.run(["peer", "show", "beta", "--json"]).json(Row.self)
      #expect(!off.implicit && off.hold && off.contacts == "query")
      let routing = try await alpha.run(["peer", "test", "beta", "--json"]).json([Step].self)
        .first { $0.step == "implicit" }
      #expect(routing?.outcome == "skip" && routing?.remedy?.contains("--implicit on") == true)
      let listed = try await alpha.run(["peer", "list", "--json"]).json([Row].self)
      #expect(listed.map(\.scopes) == [["keys", "lookup"]])
      #expect(try await alpha.relay("peer", "list").contains("REACHABLE"))
      // A leaf lasts 90 days, its CA for years: each end stands in a column of its own.
      let leaf = try #require(listed.first?.leafExpires)
      let authority = try #require(listed.first?.authorityExpires)
      #expect(leaf < authority && shown.leafExpires == leaf && shown.authorityExpires == authority)
      let table = try await alpha.relay("peer", "list")
      #expect(table.contains(#/LEAF UNTIL +CA UNTIL/#) && table.contains("\(leaf)  \(authority)"))
      #expect(try await alpha.run(["peer", "set", "beta"]).exit == .code(64))
      #expect(try await alpha.run(["peer", "set", "beta", "--scope", "everything"]).exit == .code(64))
      #expect(try await alpha.run(["peer", "set", "beta", "--force"]).exit == .code(64))
      let betasURL = "https://127.0.0.1:\(sites.beta.federationPort)"
      #expect(try await alpha.run(["peer", "set", "beta", "--url", betasURL]).exit == .code(0))
      #expect(try await alpha.run(["peer", "set", "nobody", "--hold", "on"]).exit == .code(1))
      // A budget is the peer's to tell.
      let budgets = try await alpha.run(["peer", "budget", "beta"])
      #expect(budgets.exit == .code(0) && budgets.output.contains("peer-requests"), "\(budgets.errors)")
    }
  }

  @Test func `for a peer that is away, only the CA's end is known`() async throws {
    struct Row: Decodable {
      let leafExpires: String?
      let authorityExpires: String
    }
    try await PeeredSites.with { sites in
      await sites.betaRelay.terminate()
      let listed = try await sites.alpha.run(["peer", "list", "--json"]).json([Row].self)
      #expect(listed.count == 1 && listed[0].leafExpires == nil && !listed[0].authorityExpires.isEmpty)
      let row = try await sites.alpha.relay("peer", "list").split(whereSeparator: \.isNewline).last ?? ""
      let cells = row.split(separator: " ").map(String.init)
      let end = try #require(cells.firstIndex(of: listed[0].authorityExpires))
      #expect(cells[end - 1] == "-", "\(row)")
      #expect(try await sites.alpha.relay("peer", "show", "beta").contains(#/leaf until +-\n/#))
    }
  }

  @Test func `a peer for which messages are held is not removed`() async throws {
    try await PeeredSites.with { sites in
      try await sites.alpha.relay("peer", "set", "beta", "--hold", "on")
      // Started anew it knows the policy from its first request on.
      await sites.alphaRelay.terminate()
      let alpha = try await sites.alpha.serve(["RELAY_FEDERATION_PORT": "\(sites.alpha.federationPort)"])
      let ann = try await RelayClient(url: alpha.url).register(try #require(PhoneNumber(TestDevice.freshNumber())))
      let number = try #require(PhoneNumber(TestDevice.freshNumber()))
      _ = try await RelayClient(url: sites.betaRelay.url).register(number)
      try await eventually("beta has confirmed the devices") { try await Self.send(to: number, by: ann.client) }
      await sites.betaRelay.terminate()
      try await eventually("a message is held") {
        guard try await Self.send(to: number, by: ann.client) else { return false }
        return try await sites.alpha.run(["queue", "list"]).output.contains("beta")
      }
      let refused = try await sites.alpha.run(["peer", "remove", "beta"])
      #expect(refused.exit == .code(1) && refused.errors.contains("relay queue drop --peer beta --all"))
      await alpha.terminate()
    }
  }

  /// - Returns: false when beta cannot be reached just now and nothing is held for it.
  private static func send(to number: PhoneNumber, by client: RelayClient) async throws -> Bool {
    do {
      try await client.send([OutgoingMessage(body: [1])], to: number, at: "beta")
      return true
    } catch RelayClientError.refused(503, _, _) {
      return false
    }
  }
}
