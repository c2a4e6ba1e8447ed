import RelayClient
import TestSupport
import Testing

/// Devices and senders on different processes, with Redis between them or away.
@Suite struct AcrossProcessesTests {
  /// Runs `body` with two processes, and devices that are connected to the second: a sender, the others recipients.
  /// - Parameter pollSeconds: nil for the relay's default.
  private static func with(
    pollSeconds: Int?, devices count: Int = 2,
    _ body: @Sendable (Cluster, RelayTeam, LiveFleet, [RelayClient]) async throws -> Void
  ) async throws {
    var settings = Cluster.unlimited
    settings["RELAY_MESSAGES_POLL_SECONDS"] = pollSeconds.map { "\($0)" }
    try await Cluster.with(settings: settings) { cluster in
      try await RelayTeam.with(2, of: cluster.site) { team in
        let fleet = try await LiveFleet(count, registeredAt: try team.process(0))
        let entrances = try team.urls.map { try LiveFleet.entrance($0) }
        try await fleet.connected(by: [entrances[1]], SeededGenerator(seed: 1)) {
          try await body(cluster, team, fleet, entrances)
        }
        let audit = fleet.ledger.audit()
        #expect(audit.isClean, "\(audit)")
        #expect(fleet.faults.isEmpty, "\(fleet.faults)")
      }
    }
  }

  @Test
  func `a message sent at one process reaches the device on another at once, not when its mailbox is next polled`()
    async throws
  {
    try await Self.with(pollSeconds: 3600) { _, _, fleet, entrances in
      for _ in 1...20 { try await Self.pass(fleet, by: entrances[0]) }
    }
  }

  @Test func `Redis away: connected devices get their messages by reading the store, and nobody is disconnected`()
    async throws
  {
    try await Self.with(pollSeconds: 2) { cluster, _, fleet, entrances in
      cluster.redis.stop()
      for _ in 1...5 {
        try await Self.pass(fleet, by: entrances[0])
      }
      #expect(fleet.devices[1].connections == 1, "\(fleet.devices[1].ends)")
    }
  }

  /// Every mailbox is read every 25 seconds; a machine that is busy takes a little longer.
  @Test func `Redis away, and nothing configured: what is sent at another process comes with the next poll`()
    async throws
  {
    try await Self.with(pollSeconds: nil, devices: 12) { cluster, _, fleet, entrances in
      cluster.redis.stop()
      for device in fleet.devices.dropFirst() {
        try await fleet.send(from: fleet.devices[0], to: device, by: entrances[0])
      }
      _ = try await fleet.untilDelivered(within: .seconds(120))
      let longest = fleet.ledger.audit().longestDelay
      print("Redis away: the last of \(fleet.devices.count - 1) messages came after \(DeliveryAudit.text(longest))")
      #expect(longest < .seconds(40))
    }
  }

  @Test func `a device to be linked waits at one process, and hears what another one is told`() async throws {
    try await Self.with(pollSeconds: 3600) { _, _, fleet, entrances in
      for (here, there) in [(entrances[0], entrances[1]), (entrances[1], entrances[0])] {
        let channel = try await here.awaitProvisioning()
        try await there.with(fleet.devices[0].credentials).provision(address: channel.address, body: [1, 2, 3])
        #expect(try await withDeadline(.seconds(60)) { try await channel.message() } == [1, 2, 3])
        #expect(try await withDeadline(.seconds(60)) { await channel.ended() }.code == 1001)
      }
    }
  }

  @Test func `Redis killed, restarted empty and flushed: presence rebuilds itself, and messages come without a poll`()
    async throws
  {
    try await Self.with(pollSeconds: 3600) { cluster, _, fleet, entrances in
      cluster.redis.stop()
      try await fleet.send(from: fleet.devices[0], to: fleet.devices[1], by: entrances[0])
      try await cluster.redis.start()
      // Nobody was told of it: coming back, Redis is told who is here, and they look.
      _ = try await fleet.untilDelivered(within: .seconds(120))
      for _ in 1...5 { try await Self.pass(fleet, by: entrances[0]) }

      for _ in 1...2 {
        try cluster.redis.flush()
        // Found out when presence is renewed, at the latest.
        for _ in 1...3 { try await Self.pass(fleet, by: entrances[0]) }
      }
      #expect(fleet.devices[1].connections == 1, "\(fleet.devices[1].ends)")
    }
  }

  /// One message from the first device of `fleet` to the second.
  private static func pass(_ fleet: LiveFleet, by entrance: RelayClient) async throws {
    try await fleet.send(from: fleet.devices[0], to: fleet.devices[1], by: entrance)
    _ = try await fleet.untilDelivered(within: .seconds(90))
  }

  @Test func `a device that connects at another process ends its connection at the first`() async throws {
    try await Self.with(pollSeconds: 3600) { _, _, fleet, entrances in
      let ledger = fleet.ledger
      let device = try await LiveDevice(registeredAt: entrances[0], ledger: ledger)
      async let first = device.end(of: entrances[0])
      try await eventually("it is connected", within: .seconds(60)) { device.isConnected }
      let second = Task { await device.end(of: entrances[1]) }
      #expect(await first == .closedByRelay(code: 1000, reason: "OK"))
      try await fleet.send(from: fleet.devices[0], to: device, by: entrances[0])
      _ = try await fleet.untilDelivered()
      // And back, to the process that had it before.
      let third = Task { await device.end(of: entrances[0]) }
      #expect(await second.value == .closedByRelay(code: 1000, reason: "OK"))
      try await fleet.send(from: fleet.devices[0], to: device, by: entrances[1])
      _ = try await fleet.untilDelivered()
      third.cancel()
      _ = await third.value
    }
  }
}

extension LiveDevice {
  /// Connects by `entrance` and waits for the end of that connection. - Returns: nil when there was none, or it was ours.
  func end(of entrance: RelayClient) async -> ConnectionEnd? {
    do {
      try await connect(by: entrance)
      return nil
    } catch {
      return error as? ConnectionEnd
    }
  }
}
