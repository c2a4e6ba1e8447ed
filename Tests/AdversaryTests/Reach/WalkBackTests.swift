// A peer asks for walks to a URL of its choice: it must not learn from them what lies there.

import TestSupport
import TestTags
import Testing

@Suite(.tags(.processes)) struct WalkBackTests {
  /// An open port, a closed one, a host that does not exist, and a relay of somebody else: the same words after the
  /// same time.
  @Test(arguments: StoreKind.allCases)
  func `until TLS has proven a peer it learns only that it was not reached`(kind: StoreKind) async throws {
    try await Victim.with(kind) { victim in
      try await Trap.with { open in
        let stranger = try await ScriptedPeer.start("stranger")
        stranger.answer(200)
        let closed = try Loopback.freePorts(1)[0]
        let urls = [
          "https://127.0.0.1:\(open.port)", "https://127.0.0.1:\(closed)", "https://nowhere.invalid", stranger.url,
        ]
        var peers: [ScriptedPeer] = []
        for (index, url) in urls.enumerated() {
          let evil = try await ScriptedPeer.start("evil\(index)")
          try await victim.trust(evil, as: "evil\(index)", at: url)
          peers.append(evil)
        }
        for peer in peers { try await victim.knows(peer) }
        let answers = try await withThrowingTaskGroup(of: WalkAnswer.self) { group in
          for peer in peers { group.addTask { try await victim.walk(to: peer) } }
          return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(answers.count == urls.count)
        for answer in answers {
          #expect(
            answer.steps
              == #"[{"step":"reach","outcome":"fail","text":"the asking relay was not reached","remedy":null,"milliseconds":0}]}"#
          )
          #expect(answer.took >= .seconds(15))
        }
        // Our operator is told where each walk ended.
        let log = victim.relay.log()
        for words in ["step=dns", "step=tcp", "step=tls"] {
          #expect(log.split(separator: "\n").contains { $0.contains(words) && $0.contains("outcome=fail") }, "\(words)")
        }
        for peer in peers { try await peer.close() }
        try await stranger.close()
      }
    }
  }

  @Test(arguments: StoreKind.allCases) func `a peer that TLS has proven is told every step`(kind: StoreKind)
    async throws
  {
    try await Victim.with(kind) { victim in
      let peer = try await ScriptedPeer.start("beta")
      peer.answer { request in
        request.path == "/v1/federation/peering"
          ? .init(status: 200, body: #"{"name":"local","state":"active"}"#) : .init(status: 404)
      }
      try await victim.trust(peer, as: "beta", at: peer.url)
      try await victim.knows(peer)
      let steps = try await victim.walk(to: peer).steps
      for step in ["reach", "dns", "tcp", "tls"] {
        #expect(steps.contains(#"{"step":"\#(step)","outcome":"ok""#), "\(steps)")
      }
      #expect(steps.contains(#"{"step":"authorisation""#) && steps.contains("127.0.0.1"), "\(steps)")
      try await peer.close()
    }
  }
}
