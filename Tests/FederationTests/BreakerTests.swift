import NIOCore
import RelayCore
import Storage
import Synchronization
import TestSupport
import TestTags
import Testing
import X509

@testable import Federation

/// When a peer that is away is asked, and when it is not.
@Suite(.tags(.stores)) struct BreakerTests {
  private let noon = Timestamp(millis: 1_700_000_000_000)

  @Test func `three failures without an answer between them open the breaker`() {
    var breaker = PeerBreaker()
    #expect(breaker.failed(.network, now: noon) == .none)
    #expect(breaker.failed(.silent, now: noon) == .none)
    #expect(breaker.answered() == .none)
    #expect(breaker.failed(.network, now: noon) == .none)
    #expect(breaker.failed(.network, now: noon) == .none)
    #expect(breaker.fault == nil)
    #expect(breaker.failed(.silent, now: noon) == .opened(.silent, isOurs: true))
    #expect(breaker.condition == .unreachable(.silent, since: noon))
    #expect(breaker.failed(.silent, now: noon) == .none)
    #expect(breaker.failed(.network, now: noon) == .redefined(.network))
    #expect(breaker.answered() == .closed(isOurs: true))
    #expect(breaker.condition == .reachable)
    // Counting begins anew.
    #expect(breaker.failed(.network, now: noon) == .none)
  }

  @Test(arguments: [PeerFault.certificate, .refused])
  func `a failure that another try cannot change opens the breaker at once`(fault: PeerFault) {
    var breaker = PeerBreaker()
    #expect(breaker.failed(fault, now: noon) == .opened(fault, isOurs: true))
  }

  @Test func `another process's word opens and closes the breaker`() {
    var breaker = PeerBreaker()
    #expect(breaker.sharedConditionRead(.reachable, now: noon) == .none)
    let away = PeerCondition.unreachable(.network, since: noon)
    #expect(breaker.sharedConditionRead(away, now: noon) == .opened(.network, isOurs: false))
    #expect(breaker.condition == away)
    #expect(breaker.sharedConditionRead(away, now: noon) == .none)
    #expect(breaker.sharedConditionRead(.reachable, now: noon) == .closed(isOurs: false))
    // The fault that this process found outlives a word that says nothing new.
    #expect(breaker.failed(.certificate, now: noon.adding(.seconds(1))) == .opened(.certificate, isOurs: true))
    #expect(breaker.sharedConditionRead(.reachable, now: noon) == .none)
    #expect(breaker.fault == .certificate)
  }

  @Test func `the echo of an ended opening opens nothing`() {
    var breaker = PeerBreaker()
    #expect(breaker.failed(.refused, now: noon) == .opened(.refused, isOurs: true))
    let own = breaker.condition
    #expect(breaker.answered() == .closed(isOurs: true))
    // The table is read late.
    #expect(breaker.sharedConditionRead(own, now: noon) == .none)
    // Opened again within the millisecond: neither word of the first opening is taken for one of this.
    #expect(breaker.failed(.refused, now: noon) == .opened(.refused, isOurs: true))
    #expect(breaker.sharedConditionRead(.reachable, now: noon) == .none)
    #expect(breaker.fault == .refused)
  }

  @Test func `two processes that found out together close together`() {
    var breaker = PeerBreaker()
    #expect(breaker.failed(.refused, now: noon) == .opened(.refused, isOurs: true))
    #expect(breaker.sharedConditionRead(.unreachable(.network, since: noon.adding(.seconds(1))), now: noon) == .none)
    #expect(breaker.sharedConditionRead(.reachable, now: noon) == .closed(isOurs: false))
  }

  @Test func `a process that another one contradicts keeps to itself for a minute what it finds`() {
    var breaker = PeerBreaker()
    func time(_ seconds: Int) -> Timestamp { noon.adding(.seconds(seconds)) }
    func read(_ condition: PeerCondition, _ seconds: Int) -> PeerBreaker.Change {
      breaker.sharedConditionRead(condition, now: time(seconds))
    }
    #expect(breaker.failed(.refused, now: noon) == .opened(.refused, isOurs: true))
    #expect(read(breaker.condition, 0) == .none)
    #expect(read(.reachable, 1) == .closed(isOurs: false))
    // It asks no more, and takes nobody off the peer.
    #expect(breaker.failed(.refused, now: time(2)) == .opened(.refused, isOurs: true))
    #expect(breaker.fault == .refused && breaker.isPrivate)
    #expect(breaker.failed(.network, now: time(3)) == .none)
    // Others find the same, and later that it is over.
    #expect(read(.unreachable(.network, since: time(4)), 4) == .none)
    #expect(!breaker.isPrivate && breaker.condition == .unreachable(.network, since: time(4)))
    #expect(read(.reachable, 30) == .closed(isOurs: false))
    #expect(breaker.failed(.refused, now: time(60)) == .opened(.refused, isOurs: true))
    #expect(breaker.isPrivate)
    #expect(breaker.answered() == .closed(isOurs: true))
    #expect(breaker.failed(.refused, now: time(61)) == .opened(.refused, isOurs: true))
    #expect(!breaker.isPrivate)
    // A clock that jumps back ends the reserve.
    var jumped = PeerBreaker()
    #expect(jumped.failed(.refused, now: time(100)) == .opened(.refused, isOurs: true))
    #expect(jumped.sharedConditionRead(jumped.condition, now: time(100)) == .none)
    #expect(jumped.sharedConditionRead(.reachable, now: time(101)) == .closed(isOurs: false))
    #expect(jumped.failed(.refused, now: time(50)) == .opened(.refused, isOurs: true))
    #expect(!jumped.isPrivate)
    // A word of others that has ended contradicts nobody who only heard it.
    var hearer = PeerBreaker()
    let away = PeerCondition.unreachable(.network, since: noon)
    #expect(hearer.sharedConditionRead(away, now: noon) == .opened(.network, isOurs: false))
    #expect(hearer.sharedConditionRead(.reachable, now: noon) == .closed(isOurs: false))
    #expect(hearer.failed(.refused, now: noon) == .opened(.refused, isOurs: true))
  }

  /// All processes of an operator may have been contradicted, by a peer that restarts for one.
  @Test func `what a contradicted process still finds after a minute, others are told`() {
    var breaker = PeerBreaker()
    var now = noon
    func contradict() {
      #expect(breaker.sharedConditionRead(breaker.condition, now: now) == .none)
      now = now.adding(.seconds(1))
      #expect(breaker.sharedConditionRead(.reachable, now: now) == .closed(isOurs: false))
      #expect(breaker.failed(.certificate, now: now) == .opened(.certificate, isOurs: true))
      #expect(breaker.isPrivate)
    }
    #expect(breaker.failed(.certificate, now: now) == .opened(.certificate, isOurs: true))
    // Contradicted again and again, it waits for longer each time.
    for seconds in [60, 120, 240, 480, 960, 960] {
      contradict()
      now = now.adding(.seconds(seconds - 1))
      #expect(breaker.failed(.certificate, now: now) == .none)
      #expect(breaker.isPrivate)
      now = now.adding(.seconds(1))
      #expect(breaker.failed(.certificate, now: now) == .disclosed)
      #expect(breaker.condition == .unreachable(.certificate, since: now) && !breaker.isPrivate)
      #expect(breaker.failed(.certificate, now: now) == .none)
    }
    // An answer ends the long wait.
    contradict()
    #expect(breaker.answered() == .closed(isOurs: true))
    now = now.adding(.seconds(60))
    #expect(breaker.failed(.certificate, now: now) == .opened(.certificate, isOurs: true))
    #expect(!breaker.isPrivate)
    // So does a time without contradictions.
    now = now.adding(.seconds(7200))
    #expect(breaker.sharedConditionRead(breaker.condition, now: now) == .none)
    #expect(breaker.sharedConditionRead(.reachable, now: now) == .closed(isOurs: false))
    #expect(breaker.failed(.certificate, now: now) == .opened(.certificate, isOurs: true))
    #expect(!breaker.isPrivate)
    contradict()
    now = now.adding(.seconds(60))
    // The finding behind it is news in two ways.
    #expect(breaker.failed(.refused, now: now) == .redefined(.refused))
    #expect(!breaker.isPrivate)
  }

  @Test func `only the peer's own failures count against it`() {
    let failures: [(PeerFailure, PeerFault?)] = [
      (.busy, nil), (.cancelled, nil), (.retired, nil), (.halted(.silent), nil), (.answerTooLarge, nil),
      (.unreadable, nil), (.timedOut, .silent), (.unreachable(reason: ""), .network),
      (.handshake(reason: ""), .certificate),
    ]
    for (failure, fault) in failures { #expect(failure.fault == fault) }
  }

  @Test func `a peer that is gone is asked nothing until it is back`() async throws {
    try await withScriptedPeers(["alpha"]) { beta, peers in
      peers[0].answer(404)
      #expect(try await outcome(beta) == nil)
      let port = try #require(PeerEndpoint(peers[0].url)).port
      try await peers[0].leave()
      // Time for three requests that each take all of a patient time-out, should one end so.
      try await eventually("its requests fail at once", within: .seconds(180)) {
        if case .halted = try await outcome(beta) { true } else { false }
      }
      try await eventually("other processes are told") { try await condition(beta) != .reachable }
      #expect(beta.log.contains("peer does not answer"))
      let back = try await ScriptedPeer.start("alpha", authority: peers[0].authority, port: port)
      back.answer(404)
      try await eventually("it is asked again") { try await outcome(beta) == nil }
      #expect(beta.log.contains("peer answers again"))
      try await eventually("other processes are told that it is back") { try await condition(beta) == .reachable }
      try await back.leave()
    }
  }

  @Test func `a peer that does not have us is asked nothing but whether it has`() async throws {
    try await withScriptedPeers(["alpha"]) { beta, peers in
      peers[0].answer(403, "peer-refused: This relay does not federate with you.")
      #expect(try await outcome(beta) == nil)
      #expect(try await outcome(beta) == .halted(.refused))
      try await eventually("others are told") { try await condition(beta) != .reachable }
      peers[0].answer(200, #"{"name":"beta","state":"active"}"#)
      try await eventually("it is asked again") { try await outcome(beta) == nil }
      let paths = Set(peers[0].requests.dropFirst().dropLast().map(\.path))
      #expect(paths.isSubset(of: ["/v1/federation/peering", "/v1/federation/user_count"]))
    }
  }

  /// Such a peer would else be lost and found as fast as it answers.
  @Test(arguments: [(Duration.seconds(3600), false), (.zero, true)])
  func `a peer that refuses requests and answers probes is probed at once but rarely`(
    interval: Duration, again: Bool
  ) async throws {
    var limits = PeerLimits.patient
    limits.hastenedInterval = interval
    try await withScriptedPeers(["alpha"], limits: limits) { beta, peers in
      peers[0].answer(by: { request in
        request.path == "/v1/federation/peering"
          ? .init(status: 200, body: #"{"name":"beta","state":"active"}"#)
          : .init(status: 403, body: "peer-refused: This relay does not federate with you.")
      })
      #expect(try await outcome(beta) == nil)
      let link = beta.transport.link(to: try name("alpha"))
      let first = try await eventually("it is refused") { link.state.withLock(\.hastened) }
      try await eventually("it is found, and refused again") { try await outcome(beta) == nil }
      try await eventually("it is away again") { link.state.withLock { $0.breaker.fault == .refused } }
      #expect((link.state.withLock(\.hastened) != first) == again)
      try await eventually("it is found in its time") { link.state.withLock { $0.breaker.fault == nil } }
    }
  }

  @Test func `another process's finding holds until a probe says otherwise`() async throws {
    try await withScriptedPeers(["alpha"]) { beta, peers in
      _ = await beta.registry.peer(named: try name("alpha"))
      let away = PeerCondition.unreachable(.network, since: beta.clock.now())
      #expect(try await beta.storage.setPeerCondition(away, of: name("alpha")))
      await beta.coordination.publish(.peersChanged)
      try await eventually("it is not asked") { beta.log.contains("another process says so") }
      #expect(try await outcome(beta) == .halted(.network))
      try await eventually("it is probed at once") { !peers[0].requests.isEmpty }
      #expect(peers[0].requests.map(\.path) == ["/v1/federation/peering"])
      peers[0].answer(by: { _ in .init(status: 200, body: #"{"name":"beta","state":"active"}"#) })
      try await eventually("it is asked") { try await outcome(beta) == nil }
      try await eventually("other processes hear of it") { try await condition(beta) == .reachable }
    }
  }

  /// HTTP/1.1 here, HTTP/2 below.
  @Test func `a server with a revoked certificate gets no request`() async throws {
    try await withScriptedPeers(["alpha"]) { beta, peers in
      peers[0].answer(404)
      try await revoke(peers[0].leaf.certificate, authority: try peers[0].authority.der, at: beta)
      guard case .handshake(let reason) = try await outcome(beta) else { throw TestFailure("not refused") }
      #expect(reason.contains("revoked"))
      #expect(try await outcome(beta) == .halted(.certificate))
      #expect(peers[0].requests.isEmpty)
    }
  }

  @Test func `a relay with a revoked certificate gets no request`() async throws {
    try await withPeers { alpha, beta in
      #expect(try await outcome(beta) == nil)
      let credentials = alpha.identity.credentials
      try await revoke(credentials.leaf, authority: credentials.authority.der, at: beta)
      try await eventually("its certificate is refused") { try await outcome(beta) == .halted(.certificate) }
      #expect(beta.log.contains("revoked"))
    }
  }

  @Test func `a peer that was given little time does not count as silent`() async throws {
    var limits = PeerLimits.patient
    limits.requestTimeout = .seconds(4)
    try await withScriptedPeers(["alpha"], limits: limits) { beta, _ in
      for _ in 0..<PeerBreaker.failuresMax {
        #expect(try await outcome(beta, within: .milliseconds(300)) == .timedOut)
      }
      let breaker = beta.transport.link(to: try name("alpha")).state.withLock { $0.breaker }
      #expect(breaker == PeerBreaker())
    }
  }

  /// Its alert comes behind the handshake: the first request hears of it.
  @Test func `our certificate, refused by a peer, is a refused certificate`() async throws {
    try await withPeers { alpha, beta in
      #expect(try await outcome(beta) == nil)
      let credentials = beta.identity.credentials
      try await revoke(credentials.leaf, authority: try credentials.authority.der, at: alpha, of: "beta")
      try await eventually("alpha takes it no more") { try await outcome(beta) == .halted(.certificate) }
      #expect(beta.log.contains("no TLS connection: "), "\(beta.log.all)")
    }
  }

  /// As of a load balancer whose relay processes are gone.
  @Test func `a connection that ends without an answer is no refused certificate`() async throws {
    try await withScriptedPeers(["alpha"]) { beta, peers in
      async let lost = outcome(beta)
      try await eventually("it is asked") { peers[0].requests.count == 1 }
      peers[0].dropFirstConnection()
      #expect(try await lost == .unreachable(reason: "the peer closed the connection"))
    }
  }

  @Test func `a connection that is lost is no refused certificate`() async throws {
    try await withScriptedPeers(["alpha"]) { beta, peers in
      peers[0].answer(404)
      #expect(try await outcome(beta) == nil)
      peers[0].answer(with: nil)
      async let lost = outcome(beta)
      try await eventually("it is asked") { peers[0].requests.count == 2 }
      // On a connection of its own, on which nothing is answered yet.
      async let other = outcome(beta)
      try await eventually("it is asked again") { peers[0].requests.count == 3 }
      peers[0].dropFirstConnection()
      #expect(try await lost == .unreachable(reason: "the peer closed the connection"))
      peers[0].answer(by: { _ in .init(status: 404) })
      #expect(try await other == nil)
    }
  }

  @Test func `requests to a suspended peer end soon`() async throws {
    var limits = PeerLimits.patient
    limits.retirement = .milliseconds(100)
    try await withScriptedPeers(["alpha"], limits: limits) { beta, peers in
      async let asked = outcome(beta)
      try await eventually("it is asked") { !peers[0].requests.isEmpty }
      #expect(try await beta.storage.setPeerState(.suspended, of: name("alpha")))
      await beta.coordination.publish(.peersChanged)
      #expect(try await asked == .cancelled)
    }
  }

  /// The outcome of a small request to alpha, through everything that guards it; nil when there was an answer.
  private func outcome(_ beta: TestRelay, within patience: Duration? = nil) async throws -> PeerFailure? {
    let alpha = try #require(await beta.registry.peer(named: try name("alpha")))
    do throws(PeerFailure) {
      var request = PeerRequest.get("/v1/federation/user_count")
      request.deadline = patience.map { .now + $0 }
      _ = try await beta.transport.send(request, to: alpha)
      return nil
    } catch {
      return error
    }
  }

  private func condition(_ relay: TestRelay) async throws -> PeerCondition? {
    try await relay.storage.peers().first?.condition
  }

  private func revoke(
    _ leaf: Certificate, authority: [UInt8], at relay: TestRelay, of peer: String = "alpha"
  ) async throws {
    let trust = PeerTrust(revokedSerials: [leaf.serial], sequence: 1)
    #expect(
      try await relay.storage.setPeerTrust(
        trust, caCertificate: authority, replacing: authority, of: name(peer)))
    await relay.coordination.publish(.peersChanged)
    try await eventually("it has heard") { relay.registry.peers.allSatisfy { $0.isRevoked(leaf.serial) } }
  }
}
