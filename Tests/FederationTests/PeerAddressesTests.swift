import RelayCore
import RelayHTTP
import RelayWork
import Synchronization
import TestSupport
import TestTags
import Testing

@testable import Federation

/// The addresses that a peer's URL may lead to. A connection goes to the address that was judged.
@Suite(.tags(.stores)) struct PeerAddressesTests {
  private func endpoint(_ text: String) throws -> PeerEndpoint { try #require(PeerEndpoint(text)) }

  @Test func `a public relay reaches no private address`() async throws {
    let addresses = PeerAddresses(own: try endpoint("https://relay.example"), allowsPrivate: false)
    for text in [
      "https://10.1.2.3", "https://127.0.0.1:9443", "https://[::1]", "https://[fe80::1]", "https://localhost",
    ] {
      let inside = try endpoint(text)
      #expect(!addresses.isAcceptable(inside))
      await #expect(throws: PeerFailure.privateAddress) { _ = try await addresses.way(to: inside) }
      await #expect(throws: PeerFailure.privateAddress) { _ = try await addresses.ways(to: inside) }
    }
    #expect(try await addresses.way(to: endpoint("https://1.1.1.1")).host == "1.1.1.1")
  }

  @Test(arguments: ["https://10.0.0.1:9443", "https://[fd00::1]", "https://localhost:9443"])
  func `a private relay reaches its neighbours`(own: String) async throws {
    let addresses = PeerAddresses(own: try endpoint(own), allowsPrivate: false)
    #expect(try await addresses.way(to: endpoint("https://127.0.0.1:9443")).host == "127.0.0.1")
    #expect(try await addresses.way(to: endpoint("https://beta.internal")).host == "beta.internal")
  }

  @Test func `a connection to a name goes to the address that was judged`() async throws {
    let answer = Mutex(["1.1.1.1"])
    let addresses = PeerAddresses(
      own: try endpoint("https://relay.example"), allowsPrivate: false,
      resolver: HostResolver { _, _ in answer.withLock { $0 } }, life: .seconds(1000))
    let beta = try endpoint("https://beta.example")
    #expect(try await addresses.way(to: beta).host == "1.1.1.1")
    // The name's server changes its answer: no look-up asks it.
    answer.withLock { $0 = ["127.0.0.1"] }
    #expect(try await addresses.way(to: beta).host == "1.1.1.1")
    await #expect(throws: PeerFailure.privateAddress) { _ = try await addresses.ways(to: beta) }
    await #expect(throws: PeerFailure.privateAddress) { _ = try await addresses.way(to: beta) }
    // One is enough to make the name suspect.
    answer.withLock { $0 = ["1.1.1.1", "192.168.0.1"] }
    await #expect(throws: PeerFailure.privateAddress) { _ = try await addresses.way(to: beta) }
  }

  @Test func `a stale address is looked up anew while nobody waits`() async throws {
    let answer = Mutex(["1.1.1.1"])
    let addresses = PeerAddresses(
      own: try endpoint("https://relay.example"), allowsPrivate: false,
      resolver: HostResolver { _, _ in answer.withLock { $0 } }, life: .zero)
    let beta = try endpoint("https://beta.example")
    _ = try await addresses.way(to: beta)
    answer.withLock { $0 = ["2.2.2.2"] }
    try await eventually("the new address is known") { try await addresses.way(to: beta).host == "2.2.2.2" }
  }

  /// The peer is at 127.0.0.1, which this host knows `localhost` by; the test's resolver names another address first.
  @Test func `a connection goes to the judged address, and then to the next`() async throws {
    let addresses = PeerAddresses(
      own: try endpoint("https://relay.example"), allowsPrivate: false,
      resolver: HostResolver { _, _ in ["127.0.0.77", "127.0.0.1"] }, life: .seconds(1000),
      judge: { _ in true })
    // `localhost` is allowed above; a relay that is there itself would look nothing up.
    #expect(try await addresses.ways(to: endpoint("https://localhost:1")).map(\.host) == ["127.0.0.77", "127.0.0.1"])
    try await withRelay("beta", addresses: addresses) { beta in
      let peer = try await ScriptedPeer.start("alpha")
      peer.answer(200, #"{"count":7}"#)
      let port = try #require(PeerEndpoint(peer.url)).port
      try await save(peer.authority, as: "alpha", at: beta, url: "https://localhost:\(port)")
      let known = try #require(await beta.registry.peer(named: name("alpha")))
      await #expect(throws: PeerFailure.self) {
        _ = try await beta.transport.send(.get("/v1/federation/user_count"), to: known)
      }
      #expect(peer.requests.isEmpty)
      try await eventually("the next address is taken") {
        do {
          _ = try await beta.transport.send(.get("/v1/federation/user_count"), to: known)
        } catch is PeerFailure {}
        return !peer.requests.isEmpty
      }
      try await peer.close()
    }
  }
}
