// A peer's URL leads into our own network: nothing of ours may go there.

import ChildProcesses
import Foundation
import NIOHTTP1
import RelayCore
import TestSupport
import TestTags
import Testing

@Suite(.tags(.processes)) struct PrivateAddressTests {
  /// Reached from everywhere, as its URL has it; on this host, as it is.
  private func settings(allowsPrivate: Bool) -> [String: String] {
    var settings = Victim.unlimited
    settings["RELAY_FEDERATION_URL"] = "https://relay.example:9443"
    if allowsPrivate { settings["RELAY_FEDERATION_ALLOW_PRIVATE"] = "true" }
    return settings
  }

  @Test(arguments: StoreKind.allCases)
  func `a private address is connected to for no peer`(kind: StoreKind) async throws {
    try await Victim.with(kind, settings: settings(allowsPrivate: false)) { victim in
      try await Trap.with { trap in
        var peers: [ScriptedPeer] = []
        // An address, a name of this host, and a name that becomes an address only when it is looked up.
        for (index, host) in ["127.0.0.1", "localhost", "127.1"].enumerated() {
          let evil = try await ScriptedPeer.start("evil\(index)")
          try await victim.trust(evil, as: "evil\(index)", at: "https://\(host):\(trap.port)")
          peers.append(evil)
        }
        for index in peers.indices {
          try await eventually("evil\(index) was to be connected to") {
            try await victim.metric("relay_peer_requests_total", #"outcome="private-address",peer="evil\#(index)""#) > 0
          }
        }
        try await victim.knows(peers[2])
        let walk = try await victim.walk(to: peers[2])
        #expect(walk.steps.contains(#"[{"step":"reach","outcome":"fail""#) && walk.took >= .seconds(15))
        #expect(!walk.steps.contains("public") && !walk.steps.contains("127"))
        #expect(trap.count == 0)
        #expect(victim.relay.log().contains("set `federation.allow-private` to true"))
        for peer in peers { try await peer.close() }
      }
    }
  }

  @Test(arguments: StoreKind.allCases) func `the operator may allow private addresses`(kind: StoreKind) async throws {
    try await Victim.with(kind, settings: settings(allowsPrivate: true)) { victim in
      try await Trap.with { trap in
        let peer = try await ScriptedPeer.start("beta")
        try await victim.trust(peer, as: "beta", at: "https://127.0.0.1:\(trap.port)")
        try await eventually("it is connected to") { trap.count > 0 }
        try await peer.close()
      }
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `an invitation makes no peer of a private address`(kind: StoreKind) async throws {
    try await Victim.with(kind, settings: settings(allowsPrivate: false)) { victim in
      let evil = try await ScriptedPeer.start("evil")
      let word = try await victim.site.relay("peer", "invite").split(separator: "\n").last.map(String.init) ?? ""
      let secret = try Self.secret(of: word)
      func redeem(_ url: String) async throws -> RawResponse {
        try await victim.withAnyHost(of: evil) {
          try await $0.send(
            .PUT, "/v1/federation/peering", body: #"{"secret":"\#(secret)","name":"evil","url":"\#(url)"}"#)
        }
      }
      for url in ["https://10.0.0.1", "https://[::ffff:127.0.0.1]:80", "https://localhost:9443", "https://[fd00::1]"] {
        let answer = try await redeem(url)
        #expect(answer.status == 403 && answer.text.hasPrefix("address-refused"), "\(url): \(answer.text)")
      }
      #expect(try await victim.withStorage { try await $0.peers() }.isEmpty)
      // The invitation is as good as ever.
      #expect(try await redeem("https://evil.example").status == 200)
      try await evil.close()
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `an invitation to a private address is not accepted`(kind: StoreKind) async throws {
    try await Victim.with(kind, settings: settings(allowsPrivate: false)) { victim in
      try await RelayOperator.with("other") { other in
        try await other.relay("ca", "init")
        try await other.relay("ca", "issue")
        let word = try await other.relay("peer", "invite").split(separator: "\n").last.map(String.init) ?? ""
        let result = try await victim.site.run(["peer", "accept", word])
        #expect(result.exit != .code(0))
        #expect(result.errors.contains("federation.allow-private"), "\(result.errors)")
      }
    }
  }

  /// Base64, as the invitation has it.
  private static func secret(of word: String) throws -> String {
    var text = String(word.dropFirst("relay1.".count)).replacing("-", with: "+").replacing("_", with: "/")
    while text.count % 4 != 0 { text += "=" }
    let data = try #require(Data(base64Encoded: text))
    let fields = try #require(try JSONSerialization.jsonObject(with: data) as? [String: Any])
    return try #require(fields["secret"] as? String)
  }
}
