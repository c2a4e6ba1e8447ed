import RelayCore
import Storage
import Synchronization
import TestSupport
import TestTags
import Testing
import X509

@testable import Federation

/// The first requests of a new peering, which the peer's processes may not have read of yet.
@Suite(.tags(.stores)) struct IntroductionTests {
  @Test func `a peer that has not read of us yet is asked again before it counts`() async throws {
    try await withRelay("alpha") { alpha in
      try await withRelay("beta") { beta in
        try await add(beta, to: alpha)
        _ = await alpha.registry.peer(named: beta.name)
        async let first = outcome(alpha)
        try await eventually("alpha has been refused") { beta.log.contains("handshake refused") }
        try await add(alpha, to: beta)
        await beta.coordination.publish(.peersChanged)
        #expect(try await first == nil)
        #expect(try await outcome(alpha) == nil)
        #expect(!alpha.log.contains("peer does not answer"))
        #expect(alpha.transport.link(to: beta.name).state.withLock { $0.breaker } == PeerBreaker())
      }
    }
  }

  @Test(arguments: [Duration.zero, .seconds(3600)])
  func `a refusal is forgiven of new peers only`(age: Duration) async throws {
    try await withRelay("alpha") { alpha in
      let peer = try await ScriptedPeer.start("beta")
      try await save(peer.authority, as: "beta", at: alpha, url: peer.url, age: age)
      peer.answer(403, "peer-refused: This relay does not federate with you.")
      async let first = outcome(alpha)
      try await eventually("it is asked") { !peer.requests.isEmpty }
      if age > .zero {
        #expect(try await first == nil)
        #expect(alpha.log.contains("peer does not answer"))
      } else {
        peer.answer(by: { _ in .init(status: 404) })
        #expect(try await first == nil)
        #expect(!alpha.log.contains("peer does not answer"))
      }
      try await peer.close()
    }
  }

  /// A new peer that goes on refusing is given up as any other, a little later.
  @Test func `a new peer that goes on refusing is given up`() async throws {
    try await withRelay("alpha") { alpha in
      let peer = try await ScriptedPeer.start("beta")
      try await save(peer.authority, as: "beta", at: alpha, url: peer.url, age: .zero)
      peer.answer(403, "peer-refused: This relay does not federate with you.")
      #expect(try await outcome(alpha) == nil)
      #expect(try await outcome(alpha) == .halted(.refused))
      try await peer.close()
    }
  }

  private func add(_ other: TestRelay, to relay: TestRelay) async throws {
    let peer = Peer(
      name: other.name, url: other.endpoint.text, caCertificate: try other.identity.credentials.authority.der,
      state: .active, scopes: Set(Peer.Scope.allCases), added: relay.clock.now())
    #expect(try await relay.storage.savePeer(peer))
  }

  /// The outcome of a small request to beta, through everything that guards it; nil when there was an answer.
  private func outcome(_ relay: TestRelay) async throws -> PeerFailure? {
    let beta = try #require(await relay.registry.peer(named: try name("beta")))
    do throws(PeerFailure) {
      _ = try await relay.transport.send(.get("/v1/federation/user_count"), to: beta)
      return nil
    } catch {
      return error
    }
  }
}
