// A peer invents senders, and writes to somebody until his mailbox takes no more.

import NIOHTTP1
import RelayCore
import TestSupport
import TestTags
import Testing

/// The share of a mailbox that one peer, and all of them, may fill (docs/federation.md, "A peer's share of a
/// mailbox").
@Suite(.tags(.processes)) struct MailboxShareTests {
  private static let settings = Victim.unlimited.merging(["RELAY_MESSAGES_MAILBOX_MAX": "20"]) { $1 }

  @Test(arguments: StoreKind.allCases) func `a peer leaves room in a mailbox for local senders`(kind: StoreKind)
    async throws
  {
    try await Victim.with(kind, settings: Self.settings) { victim in
      let owner = try await victim.relay.register()
      let friend = try await victim.relay.register()
      let evil = try await victim.startPeer("evil")
      #expect(try await victim.flood(owner, by: evil, from: 1) == 10, "half of the mailbox")
      // Other senders, and other forms, win nothing.
      let refused = try await victim.write(to: owner, by: evil, sender: 900)
      #expect(refused.status == 413 && refused.text.hasPrefix("peer-share-full"), "\(refused.status) \(refused.text)")
      #expect(refused.headers.first(name: "Retry-After") == "60")
      for time in 1...10 {
        let answer = try await victim.relay.send(
          "PUT", "/v1/messages/\(owner.number)", json: bundle(message(), timestamp: Int64(time)), as: friend)
        #expect(answer.status == 200, "\(time): \(answer.text)")
      }
      let last = try await victim.relay.send(
        "PUT", "/v1/messages/\(owner.number)", json: bundle(message(), timestamp: 11), as: friend)
      #expect(last.status == 413 && last.text.hasPrefix("mailbox-full"))
      let relays = try await victim.relay.mailbox(of: owner).compactMap { $0["relay"] as? String }
      #expect(relays.sorted() == Array(repeating: "", count: 10) + Array(repeating: "evil", count: 10))
      try await evil.close()
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `a peer leaves room for other peers, and all of them for local senders`(kind: StoreKind) async throws {
    try await Victim.with(kind, settings: Self.settings) { victim in
      let owner = try await victim.relay.register()
      let friend = try await victim.relay.register()
      var peers: [ScriptedPeer] = []
      for name in ["evil", "honest", "third"] { peers.append(try await victim.startPeer(name)) }
      #expect(try await victim.flood(owner, by: peers[0], from: 1) == 10)
      #expect(try await victim.flood(owner, by: peers[1], from: 101) == 5, "three quarters, all peers together")
      #expect(try await victim.flood(owner, by: peers[2], from: 201) == 0)
      for time in 1...5 {
        let answer = try await victim.relay.send(
          "PUT", "/v1/messages/\(owner.number)", json: bundle(message(), timestamp: Int64(time)), as: friend)
        #expect(answer.status == 200, "\(time): \(answer.text)")
      }
      #expect(try await victim.relay.mailbox(of: owner).count == 20)
      // Messages that the owner fetches make room for peers again.
      for entry in try await victim.relay.mailbox(of: owner) where entry["relay"] as? String == "evil" {
        let (source, time) = (entry["source"] as? String ?? "", entry["timestamp"] as? Int ?? 0)
        #expect(try await victim.relay.send("DELETE", "/v1/messages/\(source)/\(time)", as: owner).status == 200)
      }
      try await eventually("there is room again") {
        try await victim.write(to: owner, by: peers[2], sender: 300).status == 200
      }
      for peer in peers { try await peer.close() }
    }
  }
}
