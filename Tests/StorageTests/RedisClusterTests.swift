import Foundation
import RelayCore
import Synchronization
import TestSupport
import TestTags
import Testing

@testable import Storage

/// A cluster: every key is found, also when its slot moves or its node dies.
@Suite(.tags(.time)) struct RedisClusterTests {
  private static let buckets = [
    LimiterName.messages: Bucket(size: 40, perMinute: 40), .peerRequests: Bucket(size: 40, perMinute: 40),
    .peerBytes: Bucket(size: 400, perMinute: 40),
  ]

  private static func endpoint(_ nodes: RedisNodes, password: String? = nil, tls: RedisTLSFiles? = nil)
    -> RedisEndpoint
  {
    // One of them names the others, under addresses.
    let first = nodes.all[0]
    return RedisEndpoint(
      place: .cluster([.tcp(host: "localhost", port: tls == nil ? first.port : first.tlsPort ?? 0)]),
      password: password.map(Secret.init), tls: tls)
  }

  /// Runs `body` with two processes' worth of coordination, connected, and what each of them hears.
  private static func with(
    _ endpoint: RedisEndpoint, _ body: ([RedisCoordination], [HeardPresence]) async throws -> Void
  ) async throws {
    let clock = ManualClock(Sample.noon)
    let coordination = try (0..<2).map { _ in
      try RedisCoordination(
        endpoint, buckets: buckets, clock: clock.wall, time: clock.wall, patience: .seconds(600), logger: .quiet)
    }
    let heard = coordination.map { one in
      let heard = HeardPresence()
      one.hear(heard.handler)
      return heard
    }
    do {
      for (one, heard) in zip(coordination, heard) {
        try await eventually("all nodes are reached") { await one.degradation() == nil }
        try await eventually("it listens") { heard.states.last == .connected }
      }
      try await body(coordination, heard)
    } catch {
      for one in coordination { await one.close() }
      throw error
    }
    for one in coordination { await one.close() }
  }

  private static func cluster(_ coordination: RedisCoordination) throws -> RedisCluster {
    guard case .cluster(let cluster) = coordination.commands else { throw TestFailure("no cluster") }
    return cluster
  }

  /// The slot of an account's buckets and devices.
  private static func slot(_ number: AccountNumber) -> Int { RedisSlot.of(RedisSlot.tag(of: number.e164.utf8)) }

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

  /// Limits of `numbers` are exact, signals and words arrive wherever their slots are.
  private static func expectServed(
    _ coordination: [RedisCoordination], _ heard: [HeardPresence], _ numbers: Range<Int>,
    at location: SourceLocation = #_sourceLocation
  ) async throws {
    for index in numbers {
      let key = LimitKey(try Sample.number(index))
      for count in 0..<50 {
        let decision = await coordination[count % 2].take(1, from: .messages, key: key)
        #expect((decision == .allowed) == (count < 40), sourceLocation: location)
      }
    }
    let connections = try numbers.map { try Sample.connection($0, id: UInt64($0)) }
    for connection in connections { #expect(await coordination[0].enter(connection), sourceLocation: location) }
    let absent = try Sample.address(9_999)
    #expect(
      await coordination[1].wake(connections.map(\.device) + [absent]) == WakeUpOutcome(absent: [absent]),
      sourceLocation: location)
    try await eventually("all are woken") { Set(connections.map(\.device)).isSubset(of: heard[0].woken) }
    // A younger connection at the other process displaces the first.
    let younger = try Sample.connection(numbers.lowerBound, id: 77, age: .zero - .seconds(1))
    #expect(await coordination[1].enter(younger), sourceLocation: location)
    try await eventually("the older one is told") {
      heard[0].words.contains(.displaced(younger.device, connection: connections[0].id))
    }
    let signals = Heard()
    coordination[0].listen(signals.handler)
    await coordination[1].publish(.peersChanged)
    try await eventually("the signal is heard") { signals.events.contains(.signal(.peersChanged)) }
    #expect(await coordination[0].forget(connections.map(\.device)), sourceLocation: location)
    #expect(await coordination[1].forget([younger.device]), sourceLocation: location)
  }

  @Test func `limits are exact for each key, and what is said reaches its process, over three nodes`() async throws {
    try await RedisNodes.with { nodes in
      try await Self.with(Self.endpoint(nodes)) { coordination, heard in
        try await Self.expectServed(coordination, heard, 1..<21)
        // Every node has its part.
        for node in nodes.writable { #expect(try node.ask("DBSIZE") != ["0"]) }
        let waiting = try Sample.waiting(1)
        await coordination[0].enter(waiting)
        #expect(await coordination[1].handOver([1, 2], to: waiting))
        try await eventually("it is handed over") { heard[0].words.contains(.handedOver([1, 2], to: waiting)) }
        #expect(await coordination[0].diagnose()?.cluster?.nodes.count == 3)
        #expect(await coordination[0].witness(epoch: 5).map(\.epoch) == [0])
        #expect(await coordination[1].witness(epoch: 4).map(\.epoch) == [5])
      }
    }
  }

  @Test func `charges of several slots are all or none, and those of one peer lie in one`() async throws {
    try await RedisNodes.with { nodes in
      try await Self.with(Self.endpoint(nodes)) { coordination, _ in
        let one = coordination[0]
        let peer = LimitKey(try Sample.relay("beta"))
        let ofPeer = [LimitCharge(1, from: .peerRequests, key: peer), LimitCharge(20, from: .peerBytes, key: peer)]
        for count in 0..<30 { #expect((await one.take(ofPeer) == .allowed) == (count < 20)) }
        #expect(await one.space(in: .peerRequests, key: peer) == 20)
        // Accounts of other slots: the third is empty, so the first two are charged nothing.
        let keys = try (1...3).map { LimitKey(try Sample.number($0)) }
        #expect(await one.take(40, from: .messages, key: keys[2]) == .allowed)
        let mixed = keys.map { LimitCharge(1, from: .messages, key: $0) }
        for _ in 0..<10 { #expect(await one.take(mixed) != .allowed) }
        for key in keys.prefix(2) { #expect(await one.space(in: .messages, key: key) == 40) }
        #expect(await one.take(Array(mixed.prefix(2))) == .allowed)
        for key in keys.prefix(2) { #expect(await one.space(in: .messages, key: key) == 39) }
      }
    }
  }

  @Test func `a slot moves under load: ASK and MOVED are followed, and no charge is lost`() async throws {
    try await RedisNodes.with { nodes in
      try await Self.with(Self.endpoint(nodes)) { coordination, heard in
        let load = Self.load(coordination)
        let cluster = try Self.cluster(coordination[0])
        let number = try Sample.number(1)
        let (key, slot) = (LimitKey(number), Self.slot(number))
        for _ in 0..<10 { #expect(await coordination[0].take(1, from: .messages, key: key) == .allowed) }
        let source = try nodes.owner(of: slot)
        let target = try #require(nodes.writable.first { $0 !== source })
        try nodes.beginMove(of: slot, from: source, to: target)
        for _ in 0..<10 { #expect(await coordination[0].take(1, from: .messages, key: key) == .allowed) }
        #expect(cluster.asks.load(ordering: .relaxed) >= 10)
        let moves = cluster.moves.load(ordering: .relaxed)
        try nodes.endMove(of: slot, from: source, to: target)
        for count in 0..<30 {
          #expect((await coordination[0].take(1, from: .messages, key: key) == .allowed) == (count < 20))
        }
        #expect(cluster.moves.load(ordering: .relaxed) > moves)
        #expect(await coordination[0].degradation() == nil)
        load.cancel()
        try await Self.expectServed(coordination, heard, 30..<40)
      }
    }
  }

  @Test func `the slots of both channels move, and listeners follow them`() async throws {
    try await RedisNodes.with { nodes in
      try await Self.with(Self.endpoint(nodes)) { coordination, heard in
        for channel in ["relay:signal", "relay:process:\(coordination[0].process)"] {
          let slot = RedisSlot.of(channel)
          let source = try nodes.owner(of: slot)
          let target = try #require(nodes.writable.first { $0 !== source })
          try nodes.beginMove(of: slot, from: source, to: target)
          try nodes.endMove(of: slot, from: source, to: target)
        }
        for heard in heard {
          try await eventually("it listens again") {
            heard.states.contains(.disconnected) && heard.states.last == .connected
          }
        }
        try await eventually("both are well") {
          for one in coordination where await one.degradation() != nil { return false }
          return true
        }
        try await Self.expectServed(coordination, heard, 50..<55)
      }
    }
  }

  @Test func `a node is killed under load: its replica serves its keys, and the others never stopped`() async throws {
    try await RedisNodes.with { nodes in
      try await Self.with(Self.endpoint(nodes)) { coordination, heard in
        let load = Self.load(coordination)
        // The one that the endpoint names.
        let dead = nodes.all[0]
        #expect(try dead.ask("ROLE").first == "master")
        dead.stop()
        try await eventually("the death is noticed") { await coordination[0].degradation() != nil }
        try await eventually("its replica has taken over") {
          nodes.writable.count == 3
            && nodes.writable.allSatisfy {
              (try? $0.ask("CLUSTER INFO").joined().contains("cluster_state:ok")) == true
            }
        }
        let moved = ContinuousClock.now
        for (one, heard) in zip(coordination, heard) {
          try await eventually("all keys are served again") { await one.degradation() == nil }
          try await eventually("it listens again") { heard.states.last == .connected }
        }
        #expect(ContinuousClock.now - moved < MachineSpeed.allow(.seconds(5)))
        try await Self.expectServed(coordination, heard, 60..<70)
        try await dead.start()
        try await eventually("it returns as a replica") { try dead.ask("ROLE").first == "slave" }
        try await Self.expectServed(coordination, heard, 70..<75)
        load.cancel()
      }
    }
  }

  @Test func `the same inside TLS with a password, and a server that is no cluster is told of`() async throws {
    let authority = try TestAuthority("redis")
    let tls = ServerTLS(try authority.leaf(relay: nil), clients: authority)
    try await RedisNodes.with(password: "serve", tls: tls) { nodes in
      let folder = nodes.all[0].folder
      let files = RedisTLSFiles(
        authority: folder + "/clients.pem", certificate: folder + "/tls.pem", key: folder + "/tls.key")
      try await Self.with(Self.endpoint(nodes, password: "serve", tls: files)) { coordination, heard in
        #expect(await coordination[0].diagnose()?.encryption == "TLSv1.3")
        try await Self.expectServed(coordination, heard, 1..<11)
      }
    }
    try await RedisServer.with { server in
      let clock = ManualClock(Sample.noon)
      let one = try RedisCoordination(
        RedisEndpoint(place: .cluster([.tcp(host: "127.0.0.1", port: server.port)])), clock: clock.wall, logger: .quiet)
      try await eventually("it is told of") { await one.degradation()?.contains("cluster-enabled") == true }
      #expect(await one.take(1, from: .messages, key: LimitKey(try Sample.number(1))) == .allowed)
      await one.close()
    }
  }
}
