import Crypto
import Foundation
import Logging
import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Storage

@Suite(.tags(.stores)) struct RedisOutageTests {
  private let buckets = [LimiterName.messages: Bucket(size: 40, perMinute: 40)]

  /// How many charges pass before the first refusal, 100 at most.
  private func allowed(_ coordination: RedisCoordination, _ key: LimitKey) async -> Int {
    for count in 0..<100 where await coordination.take(1, from: .messages, key: key) != .allowed { return count }
    return 100
  }

  @Test func `without Redis a smaller bucket of the process serves, and Redis's when it is back`() async throws {
    let lines = LogRecorder.Lines()
    let logger = Logger(label: "redis") { _ in LogRecorder(lines: lines) }
    try await RedisServer.with { server in
      try await withRedis(server, buckets: buckets, logger: logger) { coordination in
        let coordination = coordination[0]
        let heard = Heard()
        coordination.listen(heard.handler)
        #expect(await allowed(coordination, LimitKey(try Sample.number(1))) == 40)

        server.stop()
        try await eventually("the outage is noticed") { heard.events.contains(.disconnected) }
        try await eventually("the outage is reported") { await coordination.degradation() != nil }
        let started = ContinuousClock.now
        let calls = Int((20 * MachineSpeed.factor).rounded(.up))
        for index in 0..<calls { #expect(await allowed(coordination, LimitKey(try Sample.number(index))) == 10) }
        // A time-out of a second for each would take twice as long.
        #expect(ContinuousClock.now - started < MachineSpeed.allow(.seconds(10)))
        #expect(
          await coordination.take(41, from: .messages, key: LimitKey(try Sample.number(500)))
            == .refused(retryAfter: nil))
        await coordination.publish(.peersChanged)
        #expect(heard.events.last == .signal(.peersChanged))

        try await server.start()
        try await eventually("Redis is found again") { await coordination.degradation() == nil }
        try await eventually("listeners are told") { heard.events.last == .connected }
        #expect(await allowed(coordination, LimitKey(try Sample.number(3))) == 40)
        #expect(try server.command("DBSIZE") == ":1")
      }
    }
    #expect(lines.count(.warning, containing: "limits") == 1)
    #expect(lines.count(.notice, containing: "limits") == 1)
  }

  @Test func `a silent Redis is given up within its deadline, and used again when it answers`() async throws {
    try await RedisServer.with { server in
      try await withRedis(server, buckets: buckets) { coordination in
        let coordination = coordination[0]
        server.pause()
        let started = ContinuousClock.now
        let decision = await coordination.take(1, from: .messages, key: LimitKey(try Sample.number(1)))
        #expect(decision == .allowed)
        // It is silent for as long as it is paused: any end is the deadline's.
        #expect(ContinuousClock.now - started < MachineSpeed.allow(.seconds(30)))
        #expect(await coordination.degradation() != nil)
        server.resume()
        try await eventually("Redis is used again") { await coordination.degradation() == nil }
      }
    }
  }

  @Test func `an idle connection to a silent Redis is found out`() async throws {
    try await RedisServer.with { server in
      try await withRedis(server) { coordination in
        let heard = Heard()
        coordination[0].listen(heard.handler)
        server.pause()
        try await eventually("the silence is noticed") { heard.events.contains(.disconnected) }
        #expect(await coordination[0].degradation() != nil)
        server.resume()
        try await eventually("Redis is used again") { await coordination[0].degradation() == nil }
      }
    }
  }

  @Test func `a Redis that forgot its scripts is given them again`() async throws {
    try await RedisServer.with { server in
      try await withRedis(server, buckets: buckets) { coordination in
        let key = LimitKey(try Sample.number(1))
        #expect(await allowed(coordination[0], key) == 40)
        try server.flush()
        #expect(await allowed(coordination[0], key) == 40)
        #expect(try server.command("DBSIZE") == ":1")
      }
    }
  }

  @Test func `a bucket's key holds no number, and goes when the bucket is full again`() async throws {
    try await RedisServer.with { server in
      try await withRedis(server, buckets: buckets) { coordination in
        let number = try Sample.number(1)
        #expect(await coordination[0].take(1, from: .messages, key: LimitKey(number)) == .allowed)
        let digest = Array(SHA256.hash(data: Data(number.e164.utf8)).prefix(16))
        let key = "relay:bucket:messages:\(RedisSlot.tag(of: number.e164.utf8))\(Base64.encodeURLSafe(digest))"
        #expect(try server.command("EXISTS \(key)") == ":1")
        let life = try Int(server.command("PTTL \(key)").dropFirst())
        #expect((1...60_000).contains(try #require(life)))
      }
    }
  }

  @Test func `password, database and Unix socket are used as the URL says`() async throws {
    try await RedisServer.with(password: "secret") { server in
      func reach(_ password: String?) throws -> RedisCoordination {
        try RedisCoordination(
          RedisEndpoint(
            address: .unix(path: server.socketPath), password: password.map(Secret.init), database: 3),
          clock: ManualClock(Sample.noon).wall, logger: .quiet)
      }
      let right = try reach("secret")
      try await eventually("Redis is reached") { await right.degradation() == nil }
      #expect(await right.take(1, from: .messages, key: LimitKey(try Sample.number(1))) == .allowed)
      await right.close()
      for (password, code) in [("wrong", "WRONGPASS"), (nil, "NOAUTH")] {
        let refused = try reach(password)
        try await eventually("\(code) is reported") { await refused.degradation()?.contains(code) == true }
        await refused.close()
      }
    }
  }

  @Test func `a Redis that was never there leaves a process that limits by itself`() async throws {
    let port = try Loopback.freePorts(1)[0]
    let coordination = try RedisCoordination(
      RedisEndpoint(address: .tcp(host: "127.0.0.1", port: port)), buckets: buckets,
      clock: ManualClock(Sample.noon).wall, logger: .quiet)
    #expect(await allowed(coordination, LimitKey(try Sample.number(1))) == 10)
    #expect(await coordination.degradation() != nil)
    await coordination.close()
    #expect(await coordination.take(1, from: .messages, key: LimitKey(try Sample.number(2))) == .allowed)
  }

  @Test
  func `without Redis, or with one that forgot everything, charges of several are still all or none`() async throws {
    let buckets = [
      LimiterName.peerRequests: Bucket(size: 40, perMinute: 40), .peerBytes: Bucket(size: 400, perMinute: 40),
    ]
    try await RedisServer.with { server in
      try await withRedis(server, buckets: buckets) { coordination in
        let coordination = coordination[0]
        func charges(_ name: String, _ bytes: Double) throws -> [LimitCharge] {
          let key = LimitKey(try Sample.relay(name))
          return [LimitCharge(1, from: .peerRequests, key: key), LimitCharge(bytes, from: .peerBytes, key: key)]
        }
        func allowed(_ name: String, _ bytes: Double) async throws -> Int {
          for count in 0..<100 where try await coordination.take(charges(name, bytes)) != .allowed { return count }
          return 100
        }
        func space(_ limiter: LimiterName, _ name: String) async throws -> Double {
          await coordination.space(in: limiter, key: LimitKey(try Sample.relay(name)))
        }
        for _ in 0..<2 {
          #expect(try await allowed("beta", 20) == 20)
          #expect(try await space(.peerRequests, "beta") == 20)
          try server.flush()
        }
        server.stop()
        try await eventually("the outage is reported") { await coordination.degradation() != nil }
        // A quarter of each, the narrower first.
        #expect(try await allowed("beta", 20) == 5)
        #expect(try await space(.peerRequests, "beta") == 5)
        #expect(try await space(.peerBytes, "beta") == 0)
        // More than the quarter empties it; more than the whole is refused for good.
        #expect(try await coordination.take(charges("gamma", 401)) == .refused(retryAfter: nil))
        #expect(try await coordination.take(charges("gamma", 400)) == .allowed)
        #expect(try await space(.peerBytes, "gamma") == 0)
        #expect(try await space(.peerRequests, "gamma") == 9)
        try await server.start()
        try await eventually("Redis is found again") { await coordination.degradation() == nil }
        #expect(try await allowed("beta", 20) == 20)
      }
    }
  }
}
