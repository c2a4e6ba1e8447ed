import NIOHTTP1
import RelayCore
import Storage
import Synchronization
import TestSupport
import TestTags
import Testing

@testable import Federation

/// The way to a peer, step by step, and what each step says when it ends there.
@Suite(.tags(.stores)) struct ProbeTests {
  @Test func `a walk without the scope of messages takes every other step`() async throws {
    try await withPeers { alpha, beta in
      let results = try await walk(from: beta, to: "alpha")
      #expect(
        results.map(\.step) == [.dns, .tcp, .tls, .certificate, .clock, .version, .authorisation, .budget])
      #expect(results.with(.passed).count == results.count, "\(results)")
      #expect(results.compactMap(\.remedy).isEmpty)
      let scopes = try #require(results.of(.authorisation))
      #expect(scopes.text.contains("active there as beta"))
      #expect(scopes.text.contains("messages, keys, directory"))
    }
  }

  @Test func `a suspended relay learns that it is suspended`() async throws {
    try await withPeers { alpha, beta in
      #expect(try await alpha.storage.setPeerState(.suspended, of: name("beta")))
      await alpha.coordination.publish(.peersChanged)
      try await eventually("alpha has heard") { alpha.registry.peers.allSatisfy { !$0.isActive } }
      let results = try await walk(from: beta, to: "alpha")
      let failed = results.with(.failed)
      #expect(failed.first?.step == .authorisation)
      #expect(failed.first?.remedy != nil)
      #expect(results.last?.outcome == .skipped)
    }
  }

  @Test func `closed scopes are named`() async throws {
    try await withPeers { alpha, beta in
      #expect(try await alpha.storage.setPeerScopes([.messages], of: name("beta")))
      await alpha.registry.refresh()
      let scopes = try #require(try await walk(from: beta, to: "alpha").of(.authorisation))
      #expect(scopes.outcome == .passed)
      #expect(scopes.text.contains("open to us: messages;"))
      #expect(scopes.text.contains("closed: keys, directory"))
    }
  }

  @Test func `a peer that is away ends the walk at the connection`() async throws {
    try await withRelay("beta") { beta in
      let port = try Loopback.freePorts(1)[0]
      let peer = Peer(
        name: try name("alpha"), url: "https://127.0.0.1:\(port)", caCertificate: try beta.ownAuthority.der,
        state: .active, scopes: [], added: Timestamp(millis: 0))
      let results = await walk(from: beta, to: try #require(KnownPeer(peer)))
      let failed = results.with(.failed)
      #expect(failed.map(\.step) == [.tcp])
      #expect(failed.first?.remedy?.contains("firewalls") == true)
      #expect(results.first?.step == .dns && results.first?.outcome == .passed)
      #expect(results.with(.skipped).count == results.count - 2)
    }
  }

  /// Our own clock goes wrong by `seconds`: forwards, where certificates that were just made are valid still.
  @Test(arguments: [
    (Int64(20), ProbeResult.Outcome.passed, "behind ours"), (90, .warned, "s behind ours"),
    (-90, .warned, "s ahead of ours"), (600, .failed, "s behind ours"),
  ])
  func `clocks are compared`(seconds: Int64, outcome: ProbeResult.Outcome, words: String) async throws {
    try await withPeers { alpha, beta in
      let peer = try #require(await beta.registry.peer(named: name("alpha")))
      let wrong = WallClock { beta.clock.now().adding(.seconds(seconds)) }
      let clock = try #require(await walk(from: beta, to: peer, clock: wrong).of(.clock))
      #expect(clock.outcome == outcome, "\(clock)")
      #expect(clock.text.contains(words) || outcome == .passed, "\(clock)")
    }
  }

  @Test func `a walk ends in time`() async throws {
    try await withPeers { alpha, beta in
      let peer = try #require(await beta.registry.peer(named: name("alpha")))
      let probe = PeerProbe(
        credentials: beta.identity.credentials, addresses: beta.addresses, clock: beta.clock, limits: .patient)
      var results: [ProbeResult] = []
      for await result in probe.walk(peer, .init(source: nil), within: .zero) { results.append(result) }
      #expect(results.last?.outcome == .failed)
      #expect(results.last?.text.contains("no answer within") == true)
    }
  }

  /// One walk for each peer, and what is refused for that costs no probe.
  @Test func `walks back are bounded for each peer`() async throws {
    let host = HeldProbes(account: try number("+14155550100"))
    try await withRelay("alpha", probes: host) { relay in
      try await withPeer("beta", of: relay) { beta in
        async let walk = beta.send(.PUT, ProbeController.path, body: #"{"run":true}"#).status
        try await eventually("it is under way") { host.asked == 1 }
        let refused = try await beta.send(.PUT, ProbeController.path, body: #"{"run":true}"#)
        #expect(refused.status == 503 && refused.headers.first(name: "Retry-After") == "15")
        let space = await relay.coordination.space(in: .peerProbes, key: LimitKey(try name("beta")))
        #expect(space >= 4)
        // Another one's walk waits for nobody.
        try await withPeer("gamma", of: relay) { gamma in
          async let other = gamma.send(.PUT, ProbeController.path, body: #"{"run":true}"#).status
          try await eventually("both are under way") { host.asked == 2 }
          host.letGo()
          let status = try await other
          #expect(status == 200)
        }
        let status = try await walk
        #expect(status == 200)
      }
    }
  }

  // MARK: - Bodies

  @Test func `a status is read as it was written`() throws {
    let status = PeeringStatus(
      name: try name("beta"), state: .active, capabilities: [.probe, .budget], time: Timestamp(millis: 7),
      authorities: [[0, 0x1f, 0xff]], version: 1, attachmentMark: AttachmentMark(513))
    #expect(
      String(decoding: status.json, as: UTF8.self)
        == #"{"name":"beta","state":"active","capabilities":["budget","probe"],"time":7,"authorities":["001fff"],"version":1,"attachmentMark":513}"#
    )
    #expect(try PeeringStatus.decode(status.json.span.bytes) == status)
  }

  @Test func `a former relay tells its name and state`() throws {
    let status = try PeeringStatus.decode(Array(#"{"name":"beta","state":"suspended"}"#.utf8).span.bytes)
    #expect(status == PeeringStatus(name: try name("beta"), state: .suspended))
    #expect(status.capabilities == nil && status.time == nil && status.version == nil)
  }

  @Test func `unknown abilities of a later relay are passed over`() throws {
    let text = #"{"name":"b","state":"active","capabilities":["probe","teleport"],"more":[1]}"#
    #expect(try PeeringStatus.decode(Array(text.utf8).span.bytes).capabilities == [.probe])
  }

  /// Such times would overflow in the sum.
  @Test(arguments: [Int64.min, -1, (1 << 53) + 1, .max])
  func `an impossible time is no time`(time: Int64) throws {
    let text = #"{"name":"b","state":"active","time":\#(time)}"#
    #expect(try PeeringStatus.decode(Array(text.utf8).span.bytes).time == nil)
    for good in [0, Int64(1) << 53] {
      let text = #"{"name":"b","state":"active","time":\#(good)}"#
      #expect(try PeeringStatus.decode(Array(text.utf8).span.bytes).time?.millis == good)
    }
  }

  @Test(arguments: [Int64.min, 0, 1 << 53, .max])
  func `a peer's clock may show anything`(time: Int64) async throws {
    try await withScriptedPeers(["alpha"]) { beta, peers in
      peers[0].answer(200, #"{"name":"beta","state":"active","time":\#(time),"version":\#(time)}"#)
      let clock = try #require(try await walk(from: beta, to: "alpha").of(.clock))
      #expect(clock.outcome == ((0...(1 << 53)).contains(time) ? .failed : .skipped), "\(clock)")
    }
  }

  @Test func `the way back is read, with its words made printable`() throws {
    let text = """
      {"account":"+999123456789012","received":[1,2],"steps":[
        {"step":"tls","outcome":"fail","text":"a\\u001bb","remedy":"c","milliseconds":3},
        {"step":"later","outcome":"ok","text":"","remedy":null,"milliseconds":0}]}
      """
    let answer = try ProbeAnswer.decode(Array(text.utf8).span.bytes)
    #expect(answer.account.e164 == "+999123456789012")
    #expect(answer.received.map(\.millis) == [1, 2])
    #expect(answer.steps?.map(\.label) == ["back tls"])
    #expect(answer.steps?.first?.text == "a?b")
    #expect(answer.steps?.first?.remedy == "c")
  }

  @Test func `budgets are read`() throws {
    let text = #"{"budgets":[{"name":"peer-requests","size":100,"perMinute":5,"space":9},{"name":"A B"}]}"#
    let budgets = try RemainingBudget.decode(Array(text.utf8).span.bytes)
    #expect(budgets == [RemainingBudget(name: "peer-requests", size: 100, perMinute: 5, space: 9)])
    #expect(budgets.first?.isLow == true)
  }
}

private func walk(from relay: TestRelay, to text: String) async throws -> [ProbeResult] {
  await walk(from: relay, to: try #require(await relay.registry.peer(named: name(text))))
}

private func walk(from relay: TestRelay, to peer: KnownPeer, clock: WallClock? = nil) async -> [ProbeResult] {
  let probe = PeerProbe(
    credentials: relay.identity.credentials, addresses: relay.addresses, clock: clock ?? relay.clock, limits: .patient)
  var results: [ProbeResult] = []
  for await result in probe.walk(peer, .init(source: nil)) { results.append(result) }
  return results
}

extension [ProbeResult] {
  fileprivate func with(_ outcome: ProbeResult.Outcome) -> Self { filter { $0.outcome == outcome } }
  fileprivate func of(_ step: PeerProbe.Step) -> ProbeResult? { first { $0.step == step } }
}

/// An account that is prepared when the test says so.
private final class HeldProbes: ProbeHost {
  private let account: AccountNumber
  private let state = Mutex((asked: 0, isHolding: true))

  init(account: AccountNumber) { self.account = account }

  var asked: Int { state.withLock { $0.asked } }
  func letGo() { state.withLock { $0.isHolding = false } }

  func prepare() async throws(Problem) -> AccountNumber {
    state.withLock { $0.asked += 1 }
    while state.withLock({ $0.isHolding }), !Task.isCancelled {
      try? await Task.sleep(for: .milliseconds(5))  // Throws when cancelled, which the condition sees.
    }
    return account
  }

  func collect(from relay: RelayName) async throws(Problem) -> [Timestamp] { [] }
}
