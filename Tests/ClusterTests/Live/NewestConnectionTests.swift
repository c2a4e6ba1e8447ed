import ChildProcesses
import RelayClient
import TestSupport
import TestTags
import Testing

/// The newer of two live connections of a device at two processes stays, whatever happens to Redis between them.
@Suite(.tags(.time)) struct NewestConnectionTests {
  private static let redisPause = Duration.seconds(60)

  /// Two processes, each with its own way to Redis, and devices.
  private struct Site: Sendable {
    let cluster: Cluster
    let ways: [CuttingProxy]
    let relays: [RelayProcess]
    let entrances: [RelayClient]
    let fleet: LiveFleet

    /// Cuts a process off from Redis.
    func cutOff(_ process: Int) async throws {
      ways[process].lead(to: nil)
      ways[process].cutAll()
      try await eventually("process \(process) notices", within: NewestConnectionTests.redisPause) {
        relays[process].log().contains("Redis is away: limits")
      }
    }

    func heal(_ process: Int) { ways[process].lead(to: cluster.redis.port) }
  }

  private static func with(_ devices: Int, _ body: @Sendable (Site) async throws -> Void) async throws {
    var settings = Cluster.unlimited
    settings["RELAY_MESSAGES_POLL_SECONDS"] = "3600"
    try await Cluster.with(settings: settings) { cluster in
      var ways: [CuttingProxy] = []
      var relays: [RelayProcess] = []
      do {
        for _ in 0..<2 {
          let way = try await CuttingProxy(to: cluster.redis.port, seed: 1)
          ways.append(way)
          relays.append(
            try await cluster.site.serve(["RELAY_COORDINATION_URL": "redis://127.0.0.1:\(way.port)"]))
        }
        let entrances = try relays.map { try RelayClient.entrance($0.url) }
        let fleet = try await LiveFleet(devices, registeredAt: relays[0])
        try await body(Site(cluster: cluster, ways: ways, relays: relays, entrances: entrances, fleet: fleet))
        for relay in relays { #expect(await relay.terminate() == .code(0)) }
      } catch {
        for relay in relays { print("--- the end of a relay's log\n\(relay.log().suffix(1500))") }
        for relay in relays { await relay.kill9() }
        throw error
      }
      for way in ways { try await way.close() }
    }
  }

  /// Opens two connections of each device, the older one at the process that `older` names, lets `mend` bring Redis
  /// back, and expects that the older one ends with 1000 and the newer one is sent messages from both processes.
  private static func expectNewerStays(
    _ site: Site, olderAt older: @escaping @Sendable (Int) -> Int,
    between: @Sendable (Site) async throws -> Void = { _ in },
    mend: @Sendable (Site) async throws -> Void
  ) async throws {
    let devices = site.fleet.devices
    let first = devices.enumerated().map { index, device in
      Task { await device.end(of: site.entrances[older(index)]) }
    }
    try await eventually("the older ones stand", within: .seconds(60)) { devices.allSatisfy { $0.connections == 1 } }
    try await between(site)
    let second = devices.enumerated().map { index, device in
      Task { await device.end(of: site.entrances[1 - older(index)]) }
    }
    try await eventually("the newer ones stand", within: .seconds(60)) { devices.allSatisfy { $0.connections == 2 } }
    #expect(devices.allSatisfy { $0.isConnected })

    try await mend(site)
    for (index, connection) in first.enumerated() {
      let end = try await withDeadline(.seconds(60)) { await connection.value }
      #expect(end == .closedByRelay(code: 1000, reason: "OK"), "device \(index)")
    }
    // Each is sent what comes at either process: it is where Redis says.
    for entrance in site.entrances {
      for (index, device) in devices.enumerated() {
        try await site.fleet.send(from: devices[(index + 1) % devices.count], to: device, by: entrance)
      }
      _ = try await site.fleet.untilDelivered(within: .seconds(60))
    }
    for connection in second { connection.cancel() }
    for (index, connection) in second.enumerated() {
      let end = await connection.value
      #expect(end != .closedByRelay(code: 1000, reason: "OK"), "device \(index)'s newer connection was displaced")
    }
    #expect(devices.allSatisfy { $0.connections == 2 && $0.faults.isEmpty })
  }

  @Test func `Redis restarts empty: of connections that were opened meanwhile at two processes the newer ones stay`()
    async throws
  {
    try await Self.with(24) { site in
      site.cluster.redis.stop()
      try await Self.expectNewerStays(site, olderAt: { $0 % 2 }) { try await $0.cluster.redis.start() }
    }
  }

  @Test func `Redis restarts empty: an older connection that was noted before gives way to one opened meanwhile`()
    async throws
  {
    try await Self.with(24) { site in
      try await Self.expectNewerStays(
        site, olderAt: { $0 % 2 }, between: { $0.cluster.redis.stop() }, mend: { try await $0.cluster.redis.start() })
    }
  }

  @Test(arguments: [0, 1])
  func `a process cut off from Redis comes back: newer connections stay, here and there`(older: Int) async throws {
    try await Self.with(24) { site in
      try await site.cutOff(0)
      try await Self.expectNewerStays(site, olderAt: { _ in older }) { $0.heal(0) }
    }
  }
}
