import ChildProcesses
import Foundation
import RelayClient
import TestSupport
import TestTags
import Testing

/// An operator's view of a peer that stands behind HAProxy.
@Suite(.tags(.processes)) struct BalancedPeerTests {
  @Test func `no ready process reads as network, and a suspension as refused`()
    async throws
  {
    try await RelayOperator.with("alpha", settings: Cluster.unlimited) { alpha in
      try await RelayOperator.with("beta", settings: Cluster.unlimited) { beta in
        let ports = try RelayPorts.free(1, withPeers: true)
        try await HAProxyServer.with(before: ports) { balancer in
          let own = ports[0].settings.merging(
            ["RELAY_FEDERATION_URL": "https://127.0.0.1:\(balancer.peersPort)"]) { $1 }
          for (site, settings) in [(alpha, [:]), (beta, own)] {
            try await site.relay("ca", "init", overrides: settings)
            try await site.relay("ca", "issue", overrides: settings)
          }
          let here = try await alpha.serve(["RELAY_FEDERATION_PORT": "\(alpha.federationPort)"])
          let there = try await beta.serve(own)
          let invited = try await alpha.relay("peer", "invite").split(separator: "\n")
          try await beta.relay("peer", "accept", String(try #require(invited.last)), overrides: own)
          let asks = Asking(alpha, here)
          try await asks.until("reachable", "yes")

          try await beta.relay("peer", "suspend", "alpha", overrides: own)
          try await asks.until("suspended", "refused")
          try await beta.relay("peer", "resume", "alpha", overrides: own)
          try await asks.until("resumed", "yes")

          // HAProxy takes connections and has nobody to pass them to.
          #expect(await there.terminate() == .code(0))
          try await asks.until("without a process", "network")
          let test = try await alpha.run(["peer", "test", "beta"]).output
          #expect(test.contains("FAIL  tls            no connection: "), "\(test)")
          #expect(test.contains("whether a relay process is ready there"), "\(test)")
          let again = try await beta.serve(own)
          try await asks.until("back", "yes")
          await again.terminate()
          await here.terminate()
        }
      }
    }
  }

  /// A client of alpha that writes to nobody at beta, and what alpha's operator sees of it.
  private struct Asking {
    let site: RelayOperator
    let relay: RelayProcess

    init(_ site: RelayOperator, _ relay: RelayProcess) { (self.site, self.relay) = (site, relay) }

    /// Asks for keys until `relay peer list` says `word` of beta.
    func until(_ what: String, _ word: String) async throws {
      let asking = try await relay.register()
      try await eventually("\(what): peer list says \(word)", within: .seconds(60), every: .milliseconds(500)) {
        // The answer is not looked at here.
        _ = try await relay.send("GET", "/v2/keys/\(TestDevice.freshNumber())/1?relay=beta", as: asking)
        let rows = try await site.run(["peer", "list", "--json"]).json([Row].self)
        return rows.first { $0.name == "beta" }.map { $0.fault ?? "yes" } == word
      }
    }
  }

  private struct Row: Decodable {
    let name: String
    /// nil when it is reachable.
    let fault: String?
  }
}
