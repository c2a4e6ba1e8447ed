// Connections without certificates, many and silent: they must not keep peers out.

import TestSupport
import TestTags
import Testing

@Suite(.tags(.time)) struct HandshakeFloodTests {
  private static let refusals = "relay_federation_connections_refused_total"

  /// One address gets 32 places and, after 64 at once, 16 a second. The peer comes from another address.
  @Test(arguments: StoreKind.allCases)
  func `one address holds its share of places and no more`(kind: StoreKind) async throws {
    try await Victim.with(kind) { victim in
      let peer = try await ScriptedPeer.start("beta")
      try await victim.trust(peer, as: "beta")
      try await victim.knows(peer)
      let flood = Flood(port: victim.site.federationPort)
      try await eventually("the address has used up its rate", every: .zero) {
        for _ in 0..<20 { try await flood.connect(from: "127.0.0.9") }
        return try await victim.metric(Self.refusals, "address-rate") > 0
      }
      try await eventually("it holds its share alone") { flood.heldCount <= 32 }
      #expect(try await victim.metric(Self.refusals, "displaced") > 0)
      #expect(try await victim.withClient(of: peer) { try await $0.get("/v1/federation/user_count") }.status == 200)
      await flood.end()
      try await peer.close()
    }
  }

  /// Each address keeps to its share, and all together take every place that strangers have.
  @Test(arguments: StoreKind.allCases)
  func `a known peer is served while a flood from many addresses holds all places of strangers`(kind: StoreKind)
    async throws
  {
    try await Victim.with(kind) { victim in
      let peer = try await ScriptedPeer.start("beta")
      try await victim.trust(peer, as: "beta")
      try await victim.knows(peer)
      let flood = Flood(port: victim.site.federationPort)
      var count = 0
      try await eventually("all strangers have used up their rate", every: .zero) {
        for _ in 0..<40 {
          count += 1
          try await flood.connect(from: "127.0.\(1 + count / 200).\(1 + count % 200)")
        }
        return try await victim.metric(Self.refusals, "strangers-rate") > 0
      }
      #expect(try await victim.withClient(of: peer) { try await $0.get("/v1/federation/user_count") }.status == 200)
      try await eventually("strangers hold their places alone") { flood.heldCount <= 256 }
      #expect(try await victim.metric("relay_federation_handshakes_total", #"outcome="peer""#) > 0)
      await flood.end()
      try await peer.close()
    }
  }

  /// A gateway, or a cloud's address: it is known for the peer's sake, and the flood has it too.
  @Test(arguments: StoreKind.allCases)
  func `a peer is served even if the flood comes from its own address`(kind: StoreKind) async throws {
    try await Victim.with(kind) { victim in
      let peer = try await ScriptedPeer.start("beta")
      try await victim.trust(peer, as: "beta")
      try await victim.knows(peer)
      let flood = Flood(port: victim.site.federationPort)
      for _ in 0..<180 { try await flood.connect(from: "127.0.0.1") }
      #expect(try await victim.withClient(of: peer) { try await $0.get("/v1/federation/user_count") }.status == 200)
      try await eventually("the address holds its share alone") { flood.heldCount <= 128 }
      await flood.end()
      try await peer.close()
    }
  }
}
