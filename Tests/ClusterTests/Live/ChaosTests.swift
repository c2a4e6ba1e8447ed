import Foundation
import RelayClient
import TestSupport
import TestTags
import Testing

/// Every accepted message is delivered at least once, in order, and once after de-duplication, whatever dies.
@Suite(.tags(.time)) struct ChaosTests {
  /// How large the run is. `make soak` sets what docs/performance.md tells of; a run is repeated with its seed.
  private struct Extent {
    /// At least: messages are sent until every kind of mishap has happened.
    let messages: Int
    let devices: Int
    let seed: UInt64
    /// The small run is stretched, so that there is time for every kind of mishap.
    var pause: Duration { messages <= 5000 ? .milliseconds(150) : .zero }

    init() {
      let environment = ProcessInfo.processInfo.environment
      messages = environment["RELAY_SOAK_MESSAGES"].flatMap { Int($0) } ?? 3000
      devices = environment["RELAY_SOAK_DEVICES"].flatMap { Int($0) } ?? 60
      seed = environment["RELAY_SOAK_SEED"].flatMap { UInt64($0) } ?? .random(in: 1...999_999)
    }
  }

  @Test func `processes, Redis, PostgreSQL and connections die at random: nothing is lost, doubled or out of order`()
    async throws
  {
    let extent = Extent()
    print("chaos: \(extent.messages) messages, \(extent.devices) devices, seed \(extent.seed)")
    var settings = Cluster.unlimited
    settings["RELAY_LIMITS_MESSAGES_PER_MINUTE"] = "1000000"
    settings["RELAY_MESSAGES_POLL_SECONDS"] = "5"
    // Longer than a device takes to notice that a connection is silent.
    settings["RELAY_CLIENT_WEBSOCKET_IDLE_SECONDS"] = "30"
    try await Cluster.with(settings: settings, ownPostgres: true) { cluster in
      try await RelayTeam.with(3, of: cluster.site) { team in
        try await Self.run(extent, cluster, team)
      }
    }
  }

  private static func run(_ extent: Extent, _ cluster: Cluster, _ team: RelayTeam) async throws {
    var random = SeededGenerator(seed: extent.seed)
    // So that devices notice soon that nothing comes any more: after four times as long.
    var options = RelayClient.LiveOptions()
    options.keepAlive = .seconds(3)
    let fleet = try await LiveFleet(
      extent.devices, registeredAt: try team.process(0), habits: LiveDevice.Habit.allCases, options: options)
    var proxies: [CuttingProxy] = []
    for ports in team.ports { proxies.append(try await CuttingProxy(to: ports.client, seed: random.next())) }
    let entrances = try proxies.map { try RelayClient.entrance("http://127.0.0.1:\($0.port)", patience: .seconds(10)) }
    let chaos = Chaos(cluster, team, proxies)
    let (mishaps, writing) = (random.split(), random.split())
    let begun = ContinuousClock.now
    let audit = try await fleet.connected(by: entrances, random.split()) {
      try await withThrowingTaskGroup(of: Void.self) { group in
        group.addTask { try await chaos.run(mishaps) }
        group.addTask {
          defer { chaos.end() }
          try await fleet.send(
            extent.messages * 50, lanes: 30, pause: extent.pause, by: entrances, .untilAccepted, writing
          ) { fleet.ledger.acceptedCount < extent.messages || !chaos.isComplete }
        }
        try await group.waitForAll()
      }
      return try await fleet.settle(within: .seconds(180), at: try RelayClient.entrance(team.urls[0]))
    }
    print(
      "chaos: seed \(extent.seed), \(DeliveryAudit.text(.now - begun))\n\(audit)\n\(fleet.summary)\n\(chaos.summary)")
    #expect(audit.isClean, "seed \(extent.seed): \(audit)")
    #expect(audit.accepted >= extent.messages && audit.accepted == audit.submitted)
    #expect(chaos.isComplete, "\(chaos.summary)")
    #expect(fleet.faults.isEmpty, "seed \(extent.seed): \(fleet.faults.prefix(5))")
    // 1000: a newer connection stands. Processes were killed, none was stopped.
    #expect(fleet.closeCodes.isSubset(of: [1000]), "seed \(extent.seed): \(fleet.closeCodes)")
    #expect(fleet.unexplained.isEmpty, "seed \(extent.seed): displaced by no newer connection: \(fleet.unexplained)")
    #expect(fleet.refusals > 0)
    #expect(fleet.refused.isEmpty, "what was refused comes again")
    for proxy in proxies { try await proxy.close() }
  }
}
