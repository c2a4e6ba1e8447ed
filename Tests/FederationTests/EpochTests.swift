import Federation
import NIOHTTP1
import RelayCore
import Storage
import TestSupport
import TestTags
import Testing

/// Peers' memory of how far a relay's store had come.
@Suite(.tags(.stores)) struct EpochTests {
  @Test func `a peer answers the highest epoch that it was told`() async throws {
    try await withPeers { alpha, beta in
      #expect(await beta.witness().epochs(after: 5) == [0])
      // The store is an older one now: the peer knows better, and goes on knowing it.
      #expect(await beta.witness().epochs(after: 3) == [5])
      #expect(await beta.witness().epochs(after: 6) == [5])
      #expect(await beta.witness().epochs(after: 6) == [6])
      // Each side remembers the other's, not its own.
      #expect(await alpha.witness().epochs(after: 1) == [0])
    }
  }

  @Test func `epochs belong to the peer that the certificate proved`() async throws {
    try await withPeerClient(scopes: []) { relay, client in
      func put(_ body: String) async throws -> RawResponse {
        try await client.send(.PUT, "/v1/federation/epoch", body: body)
      }
      try await save(TestAuthority("gamma"), as: "gamma", at: relay)
      #expect(try await relay.storage.rememberEpoch(900, of: name("gamma")) == 0)
      #expect(try await put(#"{"epoch":"7","name":"gamma"}"#).text == #"{"epoch":0}"#)
      #expect(try await put(#"{"epoch":0}"#).text == #"{"epoch":7}"#)
      for bad in ["", "{}", #"{"epoch":null}"#, #"{"epoch":-1}"#, #"{"epoch":9223372036854775808}"#, "7"] {
        #expect(try await put(bad).status == 415, "\(bad)")
      }
      #expect(try await client.get("/v1/federation/epoch").status == 405)
      #expect(try await put(#"{"epoch":\#(Int64.max)}"#).text == #"{"epoch":7}"#)
      #expect(try await put(#"{"epoch":8}"#).text == #"{"epoch":\#(Int64.max)}"#)
      // Being told epochs is no change of the list of peers that every process would have to read again.
      let revision = try await relay.storage.peersRevision()
      _ = try await put(#"{"epoch":9}"#)
      #expect(try await relay.storage.peersRevision() == revision)
      #expect(try await relay.storage.setPeerState(.suspended, of: name("beta")))
      await relay.coordination.publish(.peersChanged)
      // By an answer, or by the end of its connection, whichever comes first.
      try await eventually("a suspended peer is refused") {
        do { return try await put(#"{"epoch":9}"#).status == 403 } catch { return true }
      }
    }
  }

  @Test func `without active peers nothing is remembered`() async throws {
    try await withScriptedPeers(["alpha"]) { beta, peers in
      let alpha = try name("alpha")
      #expect(try await beta.storage.setPeerState(.suspended, of: alpha))
      #expect(await beta.witness().epochs(after: 5).isEmpty)
      #expect(try await beta.storage.removePeer(alpha) == .removed)
      #expect(await beta.witness().epochs(after: 5).isEmpty)
      #expect(peers[0].requests.isEmpty)
    }
  }

  @Test func `every answer is handed on, and none hides another`() async throws {
    try await withScriptedPeers(["alpha", "gamma", "delta", "epsilon"]) { beta, peers in
      peers[0].answer(200, #"{"epoch":4}"#)
      peers[1].answer(200, #"{"epoch":\#(Int64.max)}"#)
      peers[2].answer(404)
      peers[3].answer(500)
      let answers = await beta.witness().epochs(after: 5)
      #expect(answers.sorted { ($0 ?? -1) < ($1 ?? -1) } == [nil, 4, .max])
      #expect(peers.allSatisfy { $0.requests.map(\.body) == [#"{"epoch":5}"#] })
      #expect(peers.allSatisfy { $0.requests.map(\.path) == ["/v1/federation/epoch"] })
    }
  }

  @Test func `peers that keep no epochs do not count as witnesses`() async throws {
    try await withScriptedPeers(["alpha", "gamma"]) { beta, peers in
      for peer in peers { peer.answer(404) }
      #expect(await beta.witness().epochs(after: 5).isEmpty)
      for answer in [(500, ""), (403, ""), (200, ""), (200, #"{"epoch":-1}"#), (204, "")] {
        peers[1].answer(answer.0, answer.1)
        #expect(await beta.witness().epochs(after: 5) == [nil], "\(answer)")
      }
    }
  }

  @Test func `a peer that was told nothing says nothing for one that is away`() async throws {
    try await withScriptedPeers(["alpha", "gamma"]) { beta, peers in
      peers[0].answer(200, #"{"epoch":0}"#)
      peers[1].answer(503)
      #expect(Set(await beta.witness().epochs(after: 5)) == [nil, 0])
      peers[1].answer(200, #"{"epoch":0}"#)
      #expect(await beta.witness().epochs(after: 5) == [0, 0])
    }
  }

  @Test func `peers that do not answer are waited for no longer than the time-out`() async throws {
    try await withScriptedPeers(["alpha", "gamma"]) { beta, peers in
      let start = ContinuousClock.now
      #expect(await beta.witness(timeout: .milliseconds(300)).epochs(after: 5) == [nil, nil])
      // The transport's own time-out is 30 seconds here.
      #expect(ContinuousClock.now - start < MachineSpeed.allow(.seconds(20)))
      peers[1].answer(200, #"{"epoch":4}"#)
      #expect(Set(await beta.witness(timeout: .seconds(5)).epochs(after: 5)) == [nil, 4])
    }
  }

  @Test func `more peers than are asked at once are all asked`() async throws {
    let names = (0..<40).map { "peer\($0)" }
    try await withScriptedPeers(names) { beta, peers in
      for (index, peer) in peers.enumerated() { peer.answer(200, #"{"epoch":\#(index)}"#) }
      #expect(Set(await beta.witness().epochs(after: 5)) == Set((0..<40).map(Int64.init)))
      #expect(peers.allSatisfy { $0.requests.count == 1 })
    }
  }

  @Test func `a list of peers that cannot be read is not an empty one`() async throws {
    try await withRelay("beta") { beta in
      let store = CountingPeers()
      store.set(nil)
      let registry = PeerRegistry(store: store, signals: beta.coordination, logger: beta.log.logger)
      let witness = PeerEpochWitness(registry: registry, transport: beta.transport)
      #expect(await witness.epochs(after: 5) == [nil])
      store.set([])
      #expect(await witness.epochs(after: 5).isEmpty)
    }
  }
}

extension PeerEpochWitness {
  /// The answers, in no order.
  fileprivate func epochs(after epoch: Int64) async -> [Int64?] { await witness(epoch: epoch).map(\.epoch) }
}
