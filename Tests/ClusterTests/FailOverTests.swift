import ChildProcesses
import TestSupport
import TestTags
import Testing

/// PostgreSQL fails over to its standby, and relays whose URL names both hosts follow.
@Suite(.tags(.time), .serialized) struct FailOverTests {
  @Test(arguments: PostgresPair.End.allCases)
  func `a synchronous standby takes over under 32 senders: nothing accepted is lost, and relays serve within 5 s`(
    end: PostgresPair.End
  ) async throws {
    try await Self.withPair(isSynchronous: true, isSecure: true) { pair, site in
      try await RelayTeam.with(2, of: site) { team in
        let relays = [try team.process(0), try team.process(1)]
        let probe = try await Probe(at: relays)
        let storm = try await Storm(senders: 32, at: relays)
        try await storm.run(messages: 100) {
          try await Loopback.blocking { try pair.failOver(end) }
          try await probe.expectService(at: relays)
          // The former primary takes no writes now, and no relay stays there.
          try await Loopback.blocking { try pair.rejoin() }
          try await Self.expectAll(relays, at: pair.primary, not: pair.standby)
          // And back, as after work on a server.
          try await Loopback.blocking { try pair.failOver(.stopped) }
          try await probe.expectService(at: relays)
        }
        try await storm.check(at: relays[1])
        for relay in relays {
          #expect(relay.child.exit == nil, "no restart")
          let log = relay.log()
          #expect(log.contains("connected to PostgreSQL again, at localhost:"), "\(log.suffix(2000))")
          #expect(!log.contains("request failed") && !log.contains("hunter2"), "\(log.suffix(2000))")
        }
      }
    }
  }

  /// Nothing comes back from there, not even a refusal.
  @Test func `a primary that falls silent is left, and its standby serves within 5 s of its promotion`() async throws {
    try await Self.withPair(isSynchronous: true) { pair, site in
      let (first, second) = (pair.primary, pair.standby)
      let way = try await LinkProxy(to: first.port)
      let url = pair.url.replacing("localhost:\(first.port)", with: "localhost:\(way.port)")
      try await RelayTeam.with(1, of: site, settings: ["RELAY_STORAGE_URL": url]) { team in
        let relays = [try team.process(0)]
        let probe = try await Probe(at: relays)
        way.set(.cut)
        try await eventually("the relay has given it up") { relays[0].log().contains("PostgreSQL did not answer") }
        try await eventually("it says so") { await relays[0].readyz()?.status == 503 }
        try await Loopback.blocking { try second.promote() }
        try await probe.expectService(at: relays)
        // The former primary takes writes still, and nobody is led there.
        way.set(.whole)
        try await eventually("no relay is there") { try !relays[0].sockets().outgoing.contains(way.port) }
        try await probe.expectService(at: relays)
        #expect(relays[0].child.exit == nil, "no restart")
      }
      try await way.close()
    }
  }

  @Test func `doctor shows primary and standbys, and warns where no commit waits for one`() async throws {
    try await Self.withPair(isSynchronous: false, isSecure: true) { pair, site in
      func found() async throws -> [String: DoctorTests.Diagnosis] {
        let all = try await site.run(["doctor", "--json"]).json([DoctorTests.Diagnosis].self)
        return Dictionary(all.filter { $0.group == "storage" }.map { ($0.check, $0) }) { first, _ in first }
      }
      let alone = try await found()
      #expect(alone["primary"]?.text == "localhost:\(pair.primary.port) takes writes; storage.url names 2 hosts")
      #expect(alone["standbys"]?.text == "following: walreceiver (streaming, async)", "\(alone)")
      #expect(alone["synchronous"]?.outcome == "warn")
      #expect(alone["synchronous"]?.remedy?.contains("synchronous_standby_names") == true)
      #expect(alone["encryption"]?.outcome == "ok")

      try await Loopback.blocking { try pair.primary.waitForStandby(true) }
      try await eventually("a commit waits for the standby") {
        try await found()["synchronous"]?.text == "a commit waits for *"
      }
      try await Loopback.blocking { try pair.primary.waitForStandby(false) }
      try await Loopback.blocking { try pair.standby.stop() }
      try await eventually("the standby is missed") { try await found()["standbys"]?.outcome == "warn" }
      try await Loopback.blocking { try pair.primary.stop() }
      try await Loopback.blocking { try pair.standby.start() }
      let lost = try await found()
      #expect(lost["reachable"]?.outcome == "fail" && lost["reachable"]?.remedy?.contains("Promote") == true, "\(lost)")
    }
  }

  /// Runs `body` with an operator whose URL names both servers, and a migrated schema.
  private static func withPair(
    isSynchronous: Bool, isSecure: Bool = false, _ body: (PostgresPair, RelayOperator) async throws -> Void
  ) async throws {
    let pair = try await Loopback.blocking { try PostgresPair(isSynchronous: isSynchronous, isSecure: isSecure) }
    try await RedisServer.with { redis in
      try await RelayOperator.with(
        stores: .servers(storage: pair.url, coordination: redis.url), settings: Cluster.unlimited
      ) { site in
        try await site.relay("migrate", "run")
        try await body(pair, site)
      }
    }
  }

  private static func expectAll(
    _ relays: [RelayProcess], at primary: PostgresServer, not standby: PostgresServer
  ) async throws {
    try await eventually("all sessions are at the primary") {
      let (here, there) = try await Loopback.blocking { (try primary.relaySessions(), try standby.relaySessions()) }
      return here >= relays.count * 6 && there == 0
    }
  }
}

/// One more sender, who asks whether a relay takes messages.
struct Probe: Sendable {
  private let sender: TestDevice
  private let recipient: TestDevice

  init(at relays: [RelayProcess]) async throws {
    sender = try await relays[0].register()
    recipient = try await relays[0].register()
  }

  /// Each relay takes a message within five seconds from now.
  func expectService(at relays: [RelayProcess]) async throws {
    for relay in relays {
      try await eventually("a message is taken", within: .seconds(5), every: .milliseconds(20)) {
        let path = "/v1/messages/\(recipient.number)"
        return try await relay.send("PUT", path, json: bundle(message(), timestamp: 1), as: sender).status == 200
      }
    }
  }
}
