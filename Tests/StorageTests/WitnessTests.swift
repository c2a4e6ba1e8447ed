import RelayCore
import Storage
import TestSupport
import TestTags
import Testing

/// Redis's memory of the store's epoch.
@Suite(.tags(.stores)) struct WitnessTests {
  @Test func `nothing outlives a process by itself`() {
    #expect(LocalCoordination(clock: ManualClock(Sample.noon).wall).epochWitness == nil)
  }

  @Test func `the highest epoch is remembered, for every process of the operator`() async throws {
    try await RedisServer.with { server in
      try await withRedis(server, 2) { coordination in
        let witnesses = try coordination.map { try #require($0.epochWitness) }
        #expect(await witnesses[0].epochs(after: 5) == [0])
        #expect(await witnesses[1].epochs(after: 3) == [5])
        #expect(await witnesses[0].epochs(after: 12) == [5])
        #expect(await witnesses[1].epochs(after: 12) == [12])
        #expect(await witnesses[1].epochs(after: 9) == [12])
        #expect(try server.command("GET relay:epoch") == "$2")
        #expect(try server.command("TTL relay:epoch") == ":-1")
      }
    }
  }

  @Test func `no digit of an epoch is lost`() async throws {
    try await RedisServer.with { server in
      try await withRedis(server) { coordination in
        let large = Int64.max - 3
        #expect(await coordination[0].epochs(after: 1 << 53) == [0])
        for epoch in [large, large + 1, large - 1] { _ = await coordination[0].epochs(after: epoch) }
        #expect(await coordination[0].epochs(after: 1) == [large + 1])
      }
    }
  }

  @Test func `of many at once, each is told of a lower epoch or of the highest`() async throws {
    try await RedisServer.with { server in
      try await withRedis(server, 2) { coordination in
        let former = await withTaskGroup(of: [Int64?].self) { group in
          for epoch in 1...64 { group.addTask { await coordination[epoch % 2].epochs(after: Int64(epoch)) } }
          return await group.reduce(into: []) { $0 += $1 }
        }
        #expect(former.count { $0 == 0 } == 1)
        #expect(await coordination[0].epochs(after: 1) == [64])
      }
    }
  }

  @Test func `operators with prefixes of their own have epochs of their own`() async throws {
    try await RedisServer.with { server in
      let endpoint = RedisEndpoint(address: .tcp(host: "127.0.0.1", port: server.port))
      for prefix in ["alpha:", "beta:"] {
        let coordination = try RedisCoordination(
          endpoint, prefix: prefix, clock: ManualClock(Sample.noon).wall, logger: .quiet)
        // Asked at once: the connection is still being made.
        #expect(await coordination.epochs(after: 7) == [0])
        await coordination.close()
      }
    }
  }

  @Test func `a Redis that is away, silent or confused is no witness`() async throws {
    try await RedisServer.with { server in
      try await withRedis(server) { coordination in
        #expect(await coordination[0].epochs(after: 5) == [0])
        server.pause()
        #expect(await coordination[0].epochs(after: 6) == [nil])
        server.resume()
        try await eventually("Redis is used again") { await coordination[0].degradation() == nil }
        #expect(await coordination[0].epochs(after: 5) != [nil])

        try server.command("DEL relay:epoch")
        try server.command("RPUSH relay:epoch x")
        #expect(await coordination[0].epochs(after: 5) == [nil])

        server.stop()
        try await eventually("the outage is noticed") { await coordination[0].degradation() != nil }
        #expect(await coordination[0].epochs(after: 7) == [nil])
      }
    }
    let port = try Loopback.freePorts(1)[0]
    let never = try RedisCoordination(
      RedisEndpoint(address: .tcp(host: "127.0.0.1", port: port)), clock: ManualClock(Sample.noon).wall,
      logger: .quiet)
    #expect(await never.epochs(after: 1) == [nil])
    await never.close()
    #expect(await never.epochs(after: 1) == [nil])
  }

  @Test func `a Redis that lost its memory knows of none, and remembers again`() async throws {
    try await RedisServer.with { server in
      try await withRedis(server) { coordination in
        #expect(await coordination[0].epochs(after: 5) == [0])
        // Its scripts are gone too.
        try server.flush()
        #expect(await coordination[0].epochs(after: 4) == [0])
        #expect(await coordination[0].epochs(after: 1) == [4])
      }
    }
  }
}

extension EpochWitness {
  /// The answers, in no order.
  fileprivate func epochs(after epoch: Int64) async -> [Int64?] { await witness(epoch: epoch).map(\.epoch) }
}
