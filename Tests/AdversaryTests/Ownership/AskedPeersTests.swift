// A malicious peer that is asked at look-up time says that every number is its own.

import RelayCore
import TestSupport
import TestTags
import Testing

@Suite(.tags(.processes)) struct AskedPeersTests {
  @Test(arguments: StoreKind.allCases)
  func `the first peer that claimed a contact has it on every process`(kind: StoreKind) async throws {
    try await Victim.with(kind, settings: Victim.quickRounds) { victim in
      // Its name sorts first.
      let evil = try await victim.befriend("evil", .asked)
      let gamma = try await victim.befriend("gamma", .asked)
      let caller = try await victim.relay.register()
      let (user, both) = (TestDevice.freshNumber(), TestDevice.freshNumber())
      gamma.list(user)
      try await eventually("gamma is remembered") {
        let owner = try await victim.relay(of: user, as: caller)
        #expect(owner == nil || owner == "gamma")
        return try await victim.withStorage { try await $0.claimants(of: ListingPeer.token(of: user)).map(\.text) }
          == ["gamma"]
      }
      evil.list(user)
      for peer in [evil, gamma] { peer.list(both) }
      // Started again it has asked nobody yet, and remembers all the same.
      await victim.relay.kill9()
      let next = try await victim.site.serve(["RELAY_FEDERATION_PORT": "\(victim.site.federationPort)"])
      let restarted = Victim(site: victim.site, relay: next, database: victim.database)
      try await eventually("evil has answered too") {
        let owner = try await restarted.relay(of: user, as: caller)
        #expect(owner == nil || owner == "gamma")
        return owner == "gamma" && evil.peer.requests.contains { $0.path == "/v1/federation/tokens" }
      }
      // If two claim it at once neither has it.
      try await eventually("both were heard") {
        #expect(try await restarted.relay(of: both, as: caller) == nil)
        return try await next.ask("/metrics").text.contains(#"relay_peer_claims_contested_total{peer="evil"}"#)
      }
      #expect(try await restarted.withStorage { try await $0.claimants(of: ListingPeer.token(of: both)) }.isEmpty)
      #expect(try await restarted.speak(evil, for: user, to: caller.number) == 403)
      _ = await next.terminate()
      for peer in [gamma, evil] { try await peer.peer.close() }
    }
  }
}
