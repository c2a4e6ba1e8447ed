import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Storage

/// Presence without Redis, with one that is silent, and with one that returns empty.
@Suite(.tags(.stores)) struct RedisPresenceOutageTests {
  @Test func `without Redis a process knows its own addresses, and with Redis again all are found`() async throws {
    try await RedisServer.with { server in
      try await withPresence(server, 2) { coordination, heard in
        let connection = try Sample.connection(1, id: 1)
        let addresses = try (1...2).map { try Sample.waiting($0) }
        #expect(await coordination[0].enter(connection))
        await coordination[0].enter(addresses[0])

        server.stop()
        for heard in heard { try await eventually("it hears of it") { heard.states.last == .disconnected } }
        try await expectAlone(coordination, connection, addresses)

        try await server.start()
        for (one, heard) in zip(coordination, heard) {
          try await eventually("Redis is found again") { await one.degradation() == nil }
          try await eventually("it listens again") { heard.states.last == .connected }
        }
        #expect(await coordination[1].wake([connection.device]) == WakeUpOutcome(absent: [connection.device]))
        #expect(await coordination[0].renew([connection]).regained == [connection])
        #expect(await coordination[1].wake([connection.device]) == WakeUpOutcome())
        try await eventually("it is woken") { heard[0].woken == [connection.device] }
        #expect(await !coordination[1].handOver([3], to: addresses[1]))
        await coordination[0].enter(addresses[1])
        #expect(await coordination[1].handOver([3], to: addresses[1]))
        try await eventually("it is handed over") { heard[0].words.last == .handedOver([3], to: addresses[1]) }
      }
    }
  }

  @Test func `a silent Redis holds nobody up for long`() async throws {
    try await RedisServer.with { server in
      try await withPresence(server, 2) { coordination, heard in
        let connection = try Sample.connection(1, id: 1)
        #expect(await coordination[0].enter(connection))
        server.pause()
        try await expectAlone(coordination, connection, (1...2).map { try Sample.waiting($0) })
        for heard in heard { try await eventually("the silence is noticed") { heard.states.last == .disconnected } }
        server.resume()
        for heard in heard { try await eventually("it listens again") { heard.states.last == .connected } }
        try await eventually("Redis is used again") { await coordination[1].wake([connection.device]).unknown.isEmpty }
      }
    }
  }

  @Test func `a Redis that was never there leaves a process with its own addresses`() async throws {
    let port = try Loopback.freePorts(1)[0]
    let coordination = try RedisCoordination(
      RedisEndpoint(address: .tcp(host: "127.0.0.1", port: port)), clock: ManualClock(Sample.noon).wall, logger: .quiet)
    let heard = HeardPresence()
    coordination.hear(heard.handler)
    try await expectAlone([coordination], Sample.connection(1, id: 1), (1...2).map { try Sample.waiting($0) })
    #expect(heard.events.first == .disconnected)
    #expect(!heard.events.contains(.connected))
    await coordination.close()
    let device = try Sample.address(1)
    #expect(await coordination.wake([device]) == WakeUpOutcome(unknown: [device]))
  }

  @Test func `a connection to Redis that breaks is mended, and both subscriptions with it`() async throws {
    try await RedisServer.with { server in
      try await withPresence(server, 2) { coordination, heard in
        let signals = Heard()
        coordination[0].listen(signals.handler)
        let connection = try Sample.connection(1, id: 1)
        for round in 1...3 {
          #expect(await coordination[0].enter(connection))
          try server.command("CLIENT KILL TYPE pubsub")
          try server.command("CLIENT KILL TYPE normal")
          for heard in heard {
            try await eventually("it is cut off and listens again") {
              heard.events.count { $0 == .disconnected } >= round && heard.states.last == .connected
            }
          }
          // Its entry was not lost: only what was said meanwhile may have been.
          try await eventually("commands are served") {
            await coordination[1].wake([connection.device]) == WakeUpOutcome()
          }
          try await eventually("it is woken") { !heard[0].woken.isEmpty }
          await coordination[1].publish(.peersChanged)
          try await eventually("signals are carried") { signals.events.count { $0 == .signal(.peersChanged) } >= round }
        }
      }
    }
  }

  @Test func `unknown words are ignored, and the next ones are heard`() async throws {
    try await RedisServer.with { server in
      try await withPresence(server) { coordination, heard in
        let device = try Sample.address(1)
        let channel = "relay:process:\(coordination[0].process)"
        let words = [
          "\"\"", "wake", "\"wake +\"", "\"wake x y\"", "\"\\x00\\xff\"",
          "\"handed a b\"",
          "\"displaced \(PresenceWord.text(of: device)) x\"", "account", "\"connected\"",
        ]
        for word in words { #expect(try server.command("PUBLISH \(channel) \(word)") == ":1") }
        // A word for all processes is not for one, and the other way round.
        #expect(try server.command("PUBLISH relay:signal \"wake \(PresenceWord.text(of: device))\"") == ":1")
        try server.command("PUBLISH \(channel) \"wake \(PresenceWord.text(of: device))\"")
        try await eventually("the last one is heard") { !heard[0].words.isEmpty }
        #expect(heard[0].words == [.wakeUp([device])])
      }
    }
  }

  /// Nothing comes of presence, at once or within a moment, but among a process's own.
  private func expectAlone(
    _ coordination: [RedisCoordination], _ connection: LiveConnection, _ addresses: [ProvisioningAddress]
  ) async throws {
    let started = ContinuousClock.now
    let heard = HeardPresence()
    coordination[0].hear(heard.handler)
    #expect(await !coordination[0].enter(connection))
    await coordination[0].enter(addresses[0])
    let renewal = await coordination[0].renew([connection])
    #expect(renewal.regained.isEmpty && renewal.unwritten == [connection])
    #expect(await coordination[0].wake([connection.device]) == WakeUpOutcome(unknown: [connection.device]))
    #expect(await coordination[0].handOver([1, 2], to: addresses[0]))
    #expect(await !coordination[0].handOver([1, 2], to: addresses[1]))
    await coordination[0].leave(connection)
    try await eventually("its own are handed over") { heard.words == [.handedOver([1, 2], to: addresses[0])] }
    // Redis is given up once, not by each call anew.
    #expect(ContinuousClock.now - started < MachineSpeed.allow(.seconds(30)))
  }
}
