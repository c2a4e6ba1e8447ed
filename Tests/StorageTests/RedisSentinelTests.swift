import Foundation
import Logging
import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Storage

/// A primary that sentinels watch: it is found, followed when it moves, and left when it is none any more.
@Suite(.tags(.time)) struct RedisSentinelTests {
  /// From the moment on when a sentinel names the new primary.
  private static let backWithin = Duration.seconds(5)
  private static let buckets = [LimiterName.messages: Bucket(size: 40, perMinute: 40)]

  private static func endpoint(
    _ group: SentinelGroup, named name: String = SentinelGroup.name, password: String? = nil,
    sentinelPassword: String? = nil, tls: RedisTLSFiles? = nil
  ) -> RedisEndpoint {
    let addresses = group.sentinels.map { sentinel in
      RedisEndpoint.Address.tcp(host: "localhost", port: tls == nil ? sentinel.port : sentinel.tlsPort ?? 0)
    }
    return RedisEndpoint(
      place: .sentinels(
        RedisSentinels(addresses: addresses, group: name, password: sentinelPassword.map(Secret.init))),
      password: password.map(Secret.init), tls: tls)
  }

  private static func open(_ endpoint: RedisEndpoint, logger: Logger = .quiet) throws -> RedisCoordination {
    let clock = ManualClock(Sample.noon)
    return try RedisCoordination(
      endpoint, buckets: buckets, clock: clock.wall, time: clock.wall, patience: .seconds(600), logger: logger)
  }

  /// Runs `body` with two processes' worth of coordination, connected, and what each of them hears.
  private static func with(
    _ endpoint: RedisEndpoint, _ body: ([RedisCoordination], [HeardPresence]) async throws -> Void
  ) async throws {
    let coordination = [try open(endpoint), try open(endpoint)]
    let heard = coordination.map { one in
      let heard = HeardPresence()
      one.hear(heard.handler)
      return heard
    }
    do {
      for heard in heard { try await eventually("it listens") { heard.states.last == .connected } }
      for one in coordination { try await eventually("Redis is reached") { await one.degradation() == nil } }
      try await body(coordination, heard)
    } catch {
      for one in coordination { await one.close() }
      throw error
    }
    for one in coordination { await one.close() }
  }

  /// Charges, signals and words about connections, without a break until the task is cancelled.
  private static func load(_ coordination: [RedisCoordination]) -> Task<Void, any Error> {
    Task {
      let connections = try (500..<520).map { try Sample.connection($0, id: UInt64($0)) }
      for round in 0... {
        for one in coordination {
          _ = await one.take(1, from: .messages, key: LimitKey(try Sample.number(100 + round % 50)))
          await one.publish(.peersChanged)
          _ = await one.renew(connections)
          _ = await one.wake(connections.map(\.device))
        }
        try await Task.sleep(for: .milliseconds(5))
      }
    }
  }

  /// Returns when all of coordination is served, which must be within `backWithin`.
  private static func expectBack(
    _ coordination: [RedisCoordination], _ heard: [HeardPresence], at location: SourceLocation = #_sourceLocation
  ) async throws {
    let moved = ContinuousClock.now
    for (one, heard) in zip(coordination, heard) {
      try await eventually("the new primary is found") { await one.degradation() == nil }
      try await eventually("it listens there") { heard.states.last == .connected }
    }
    #expect(ContinuousClock.now - moved < MachineSpeed.allow(Self.backWithin), sourceLocation: location)
  }

  /// Limits are exact, signals and words arrive, and what is noted lies at `server`.
  private static func expectServed(
    by server: RedisServer, _ coordination: [RedisCoordination], _ heard: [HeardPresence], _ index: Int,
    at location: SourceLocation = #_sourceLocation
  ) async throws {
    let key = LimitKey(try Sample.number(index))
    for count in 0..<50 {
      let decision = await coordination[count % 2].take(1, from: .messages, key: key)
      #expect((decision == .allowed) == (count < 40), sourceLocation: location)
    }
    let connection = try Sample.connection(index, id: UInt64(index))
    #expect(await coordination[0].enter(connection), sourceLocation: location)
    #expect(await coordination[1].wake([connection.device]) == WakeUpOutcome(), sourceLocation: location)
    try await eventually("it is woken") { heard[0].woken.contains(connection.device) }
    let signals = Heard()
    coordination[0].listen(signals.handler)
    await coordination[1].publish(.accountChanged(try Sample.number(index)))
    try await eventually("the signal is heard") {
      try signals.events.contains(.signal(.accountChanged(Sample.number(index))))
    }
    #expect(try server.ask("ROLE").first == "master", sourceLocation: location)
    #expect(try !server.ask("KEYS relay:device:*").isEmpty, sourceLocation: location)
    await coordination[0].leave(connection)
  }

  private static func expectFailOver(
    _ group: SentinelGroup, _ endpoint: RedisEndpoint, at location: SourceLocation = #_sourceLocation
  ) async throws {
    let (first, second) = (group.servers[0], group.servers[1])
    try await with(endpoint) { coordination, heard in
      try await expectServed(by: first, coordination, heard, 1, at: location)
      let load = load(coordination)
      first.stop()
      try await group.untilNamed(second, by: group.sentinels[0])
      try await expectBack(coordination, heard, at: location)
      try await expectServed(by: second, coordination, heard, 2, at: location)

      // The former primary is empty and takes itself for one until the sentinels tell it. They end its connections then,
      // the one that asks too.
      try await first.start()
      try await eventually("the former primary follows the new one") { (try? first.isFollowing) == true }
      try await expectServed(by: second, coordination, heard, 3, at: location)
      load.cancel()
    }
  }

  @Test
  func `the primary is killed under load: all goes on at the replica, and the old primary returns as one`() async throws
  {
    try await SentinelGroup.with { group in try await Self.expectFailOver(group, Self.endpoint(group)) }
  }

  @Test func `the same inside TLS, with passwords of servers and sentinels`() async throws {
    let authority = try TestAuthority("redis")
    let tls = ServerTLS(try authority.leaf(relay: nil), clients: authority)
    try await SentinelGroup.with(password: "serve", sentinelPassword: "watch", tls: tls) { group in
      let folder = group.servers[0].folder
      let files = RedisTLSFiles(
        authority: folder + "/authority.pem", certificate: folder + "/relay.pem", key: folder + "/relay.key")
      try authority.pem.write(toFile: folder + "/authority.pem", atomically: true, encoding: .utf8)
      try authority.leaf(relay: nil).write(chain: folder + "/relay.pem", key: folder + "/relay.key")
      let endpoint = Self.endpoint(group, password: "serve", sentinelPassword: "watch", tls: files)
      try await Self.with(endpoint) { coordination, _ in
        let found = await coordination[0].diagnose()
        #expect(found?.encryption == "TLSv1.3")
        #expect(found?.sentinels?.faults == [])
      }
      try await Self.expectFailOver(group, endpoint)
      // The CA is not the system's.
      let stranger = try Self.open(
        Self.endpoint(group, password: "serve", sentinelPassword: "watch", tls: RedisTLSFiles()))
      try await eventually("it is refused") { await stranger.degradation()?.contains("no CA that is trusted") == true }
      await stranger.close()
    }
  }

  @Test func `a fail-over that an operator asks for is followed, and the next one back`() async throws {
    try await SentinelGroup.with { group in
      try await Self.with(Self.endpoint(group)) { coordination, heard in
        let load = Self.load(coordination)
        for (round, server) in [group.servers[1], group.servers[0]].enumerated() {
          let stateCounts = heard.map(\.states.count)
          try await eventually("the fail-over begins") {
            // Refused while one is under way, or no replica is known to be good.
            (try? group.sentinels[0].ask("SENTINEL FAILOVER \(SentinelGroup.name)")) == ["OK"]
          }
          try await group.untilNamed(server, by: group.sentinels[0])
          // The former primary serves on until the sentinels have told it.
          for (heard, count) in zip(heard, stateCounts) {
            try await eventually("the former primary is left") { heard.states.count > count }
          }
          try await Self.expectBack(coordination, heard)
          try await Self.expectServed(by: server, coordination, heard, 10 + round)
        }
        load.cancel()
      }
    }
  }

  @Test func `a former primary that still takes writes is left, and a replica that is named is not used`() async throws
  {
    try await SentinelGroup.with { group in
      let (first, second) = (group.servers[0], group.servers[1])
      try await Self.with(Self.endpoint(group)) { coordination, heard in
        try group.point(group.sentinels, to: second)
        for one in coordination {
          // No call is made: the sentinels tell.
          try await eventually("the named one is no primary") {
            await one.degradation()?.contains("is a replica of Redis") == true
          }
          #expect(one.isAtReplica)
          #expect(await one.take(1, from: .messages, key: LimitKey(try Sample.number(1))) == .allowed)
        }
        try second.lead()
        try await Self.expectBack(coordination, heard)
        try await Self.expectServed(by: second, coordination, heard, 20)
        // It stands, takes writes, and nobody sends it any.
        #expect(try first.ask("ROLE").first == "master")
        #expect(try first.ask("KEYS relay:device:*") == [])
      }
    }
  }

  @Test func `sentinels that lie dead or are silent hide nothing, and without any the primary is kept`() async throws {
    try await SentinelGroup.with { group in
      group.sentinels[0].stop()
      group.sentinels[1].pause()
      try await Self.with(Self.endpoint(group)) { coordination, _ in
        let one = coordination[0]
        try await eventually("two are told as dead, and too few are left to replace the primary") {
          let found = await one.diagnose()?.sentinels
          return found?.count == 3 && found?.faults.count == 2 && found?.canReplace == false
        }
        group.sentinels[2].stop()
        try await eventually("all are dead") { await one.diagnose()?.sentinels?.faults.count == 3 }
        #expect(await one.degradation() == nil)
        group.servers[0].stop()
        try await eventually("the primary is away") {
          await one.degradation()?.contains("which the sentinels name as the primary, does not serve") == true
        }
        try await group.servers[0].start()
        try await eventually("it is used again") { await one.degradation() == nil }
        group.sentinels[1].resume()
      }
    }
  }

  @Test func `of sentinels that disagree the majority is believed, and the other is told of`() async throws {
    try await SentinelGroup.with { group in
      try group.point([group.sentinels[0]], to: group.servers[1])
      try await Self.with(Self.endpoint(group)) { coordination, _ in
        try await eventually("the one is told of") {
          let found = await coordination[0].diagnose()?.sentinels
          return found?.dissenters == [.tcp(host: "localhost", port: group.sentinels[0].port)]
            && found?.primary == .tcp(host: "127.0.0.1", port: group.servers[0].port)
        }
        #expect(await coordination[0].degradation() == nil)
      }
    }
  }

  @Test func `a wrong name, a wrong password, none, no sentinel and nobody are told apart`() async throws {
    try await SentinelGroup.with(sentinelPassword: "watch") { group in
      let nobody = try Loopback.freePorts(1)[0]
      func place(_ port: Int) -> RedisEndpoint {
        RedisEndpoint(
          place: .sentinels(
            RedisSentinels(addresses: [.tcp(host: "127.0.0.1", port: port)], group: SentinelGroup.name)))
      }
      let cases = [
        (Self.endpoint(group, named: "other", sentinelPassword: "watch"), "know no primary named other"),
        (Self.endpoint(group, sentinelPassword: "hunter2"), "refuses the user or the password"),
        (Self.endpoint(group), "wants a password"),
        (place(group.servers[0].port), "is no sentinel of Redis"),
        (place(nobody), "no sentinel of Redis answers: sentinel 127.0.0.1:\(nobody): cannot connect"),
      ]
      for (endpoint, words) in cases {
        let lines = LogRecorder.Lines()
        let one = try Self.open(endpoint, logger: Logger(label: "redis") { _ in LogRecorder(lines: lines) })
        try await eventually("\(words) is said") { await one.degradation()?.contains(words) == true }
        #expect(await one.diagnose() == nil)
        #expect(await one.take(1, from: .messages, key: LimitKey(try Sample.number(1))) == .allowed)
        await one.close()
        let refusals = lines.count(.warning, containing: "Redis cannot be used as it is configured")
        #expect(refusals == (words.contains("cannot connect") ? 0 : 1))
      }
    }
  }

  @Test func `a password that changes is taken with the next connection, of servers and of sentinels`() async throws {
    try await SentinelGroup.with(password: "old", sentinelPassword: "watch") { group in
      let present = Collected<RedisEndpoint>()
      present.add(Self.endpoint(group, password: "wrong", sentinelPassword: "wrong"))
      let clock = ManualClock(Sample.noon)
      let one = try RedisCoordination(
        present.values[0], clock: clock.wall, logger: .quiet, present: { present.values.last })
      try await eventually("the sentinels refuse") { await one.degradation()?.contains("no sentinel of Redis") == true }
      present.add(Self.endpoint(group, password: "wrong", sentinelPassword: "watch"))
      try await eventually("the primary refuses") {
        await one.degradation()?.contains("which the sentinels name as the primary, does not serve: Redis refuses")
          == true
      }
      present.add(Self.endpoint(group, password: "old", sentinelPassword: "watch"))
      try await eventually("all is well") { await one.degradation() == nil }
      await one.close()
    }
  }
}
