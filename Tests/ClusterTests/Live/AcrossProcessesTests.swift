import RelayClient
import TestSupport
import TestTags
import Testing

/// Devices and senders on different processes, with Redis between them or away.
@Suite(.tags(.time)) struct AcrossProcessesTests {
  /// Runs `body` with two processes, and devices that are connected to the second: a sender, the others recipients.
  /// - Parameter pollSeconds: nil for the relay's default.
  private static func with(
    on servers: Cluster.Servers, pollSeconds: Int?, devices count: Int = 2,
    _ body: @Sendable (Cluster, RelayTeam, LiveFleet, [RelayClient]) async throws -> Void
  ) async throws {
    var settings = Cluster.unlimited
    settings["RELAY_MESSAGES_POLL_SECONDS"] = pollSeconds.map { "\($0)" }
    try await Cluster.with(on: servers, settings: settings) { cluster in
      try await RelayTeam.with(2, of: cluster.site) { team in
        let fleet = try await LiveFleet(count, registeredAt: try team.process(0))
        let entrances = try team.urls.map { try RelayClient.entrance($0) }
        try await fleet.connected(by: [entrances[1]], SeededGenerator(seed: 1)) {
          try await body(cluster, team, fleet, entrances)
        }
        let audit = fleet.ledger.audit()
        #expect(audit.isClean, "\(audit)")
        #expect(fleet.faults.isEmpty, "\(fleet.faults)")
      }
    }
  }

  @Test(arguments: Cluster.Servers.allCases)
  func `a message sent at one process reaches the device on another at once, not when its mailbox is next polled`(
    on servers: Cluster.Servers
  ) async throws {
    try await Self.with(on: servers, pollSeconds: 3600) { _, _, fleet, entrances in
      for _ in 1...20 { try await Self.pass(fleet, by: entrances[0]) }
    }
  }

  @Test(arguments: Cluster.Servers.allCases)
  func `Redis away: connected devices get their messages by reading the store, and nobody is disconnected`(
    on servers: Cluster.Servers
  ) async throws {
    try await Self.with(on: servers, pollSeconds: 2) { cluster, _, fleet, entrances in
      cluster.redis.stop()
      for _ in 1...5 {
        try await Self.pass(fleet, by: entrances[0])
      }
      #expect(fleet.devices[1].connections == 1, "\(fleet.devices[1].ends)")
    }
  }

  /// Every mailbox is read every 25 seconds.
  @Test(arguments: Cluster.Servers.allCases)
  func `Redis away, and nothing configured: what is sent at another process comes with the next poll`(
    on servers: Cluster.Servers
  ) async throws {
    try await Self.with(on: servers, pollSeconds: nil, devices: 12) { cluster, _, fleet, entrances in
      cluster.redis.stop()
      for device in fleet.devices.dropFirst() {
        try await fleet.send(from: fleet.devices[0], to: device, by: entrances[0])
      }
      _ = try await fleet.untilDelivered(within: .seconds(120))
      let longest = fleet.ledger.audit().longestDelay
      print("Redis away: the last of \(fleet.devices.count - 1) messages came after \(DeliveryAudit.text(longest))")
      #expect(longest < MachineSpeed.allow(.seconds(40)))
    }
  }

  @Test(arguments: Cluster.Servers.allCases)
  func `a device to be linked waits at one process, and hears what another one is told`(on servers: Cluster.Servers)
    async throws
  {
    try await Self.with(on: servers, pollSeconds: 3600) { _, _, fleet, entrances in
      for (here, there) in [(entrances[0], entrances[1]), (entrances[1], entrances[0])] {
        let channel = try await here.awaitProvisioning()
        try await there.with(fleet.devices[0].credentials).provision(address: channel.address, body: [1, 2, 3])
        #expect(try await withDeadline(.seconds(60)) { try await channel.message() } == [1, 2, 3])
        #expect(try await withDeadline(.seconds(60)) { await channel.ended() }.code == 1001)
      }
    }
  }

  @Test(arguments: Cluster.Servers.allCases)
  func `Redis killed, restarted empty and flushed: presence rebuilds itself, and messages come without a poll`(
    on servers: Cluster.Servers
  ) async throws {
    try await Self.with(on: servers, pollSeconds: 3600) { cluster, team, fleet, entrances in
      cluster.redis.stop()
      try await fleet.send(from: fleet.devices[0], to: fleet.devices[1], by: entrances[0])
      try await cluster.redis.start()
      // No process was told of it. When Redis comes back, it is told which devices are here, and they look.
      _ = try await fleet.untilDelivered(within: .seconds(120))
      // A message that is stored by a process which does not reach Redis yet wakes no device elsewhere.
      for process in team.all { try await process.untilCoordination(isAvailable: true) }
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

  /// As many as a connection may hold: it would never be sent anything again.
  @Test(arguments: Cluster.Servers.allCases)
  func `a connection whose messages were all removed at another process is sent what comes next`(
    on servers: Cluster.Servers
  ) async throws {
    try await Self.with(on: servers, pollSeconds: 1) { _, _, _, entrances in
      guard let number = PhoneNumber(TestDevice.freshNumber()) else { throw TestFailure("no number") }
      let device = try await entrances[1].register(number)
      // Near its limit a sender may be refused a little early.
      var senders: [RelayClient] = []
      for _ in 0..<2 {
        guard let other = PhoneNumber(TestDevice.freshNumber()) else { throw TestFailure("no number") }
        senders.append(try await entrances[0].register(other).client)
      }
      let live = try await device.connect()
      let held = 2000
      let refusing = Task {
        var taken: [Int64] = []
        for try await delivery in live.deliveries {
          let message = try delivery.message
          taken.append(message.timestamp)
          if taken.count > held { return taken }
          try await delivery.refuse()
        }
        return taken
      }
      try await withThrowingTaskGroup(of: Void.self) { group in
        for lane in 0..<20 {
          let sender = senders[lane % senders.count]
          group.addTask {
            for index in 1...held / 20 {
              try await sender.send(
                [OutgoingMessage(body: [1])], to: number, timestamp: Int64(lane * held + index))
            }
          }
        }
        try await group.waitForAll()
      }
      guard let credentials = device.client.credentials else { throw TestFailure("no credentials") }
      let elsewhere = entrances[0].with(credentials)
      var removed = 0
      try await eventually("all that it holds is removed elsewhere", within: .seconds(120)) {
        for message in try await elsewhere.fetchMessages().messages {
          try await elsewhere.acknowledge(message)
          removed += 1
        }
        return removed == held
      }
      try await senders[0].send([OutgoingMessage(body: [1])], to: number, timestamp: 1_000_000)
      let taken = try await withDeadline(.seconds(90)) { try await refusing.value }
      #expect(taken.last == 1_000_000)
      #expect(Set(taken).count == held + 1)
      await live.close()
    }
  }

  @Test(arguments: Cluster.Servers.allCases)
  func `a device that connects at another process ends its connection at the first`(on servers: Cluster.Servers)
    async throws
  {
    try await Self.with(on: servers, pollSeconds: 3600) { _, _, fleet, entrances in
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
  /// Connects by `entrance` and waits for the end of that connection. - Returns: nil when there was none, or it was
  /// ours.
  func end(of entrance: RelayClient) async -> ConnectionEnd? {
    do {
      try await connect(by: entrance)
      return nil
    } catch {
      return error as? ConnectionEnd
    }
  }
}
