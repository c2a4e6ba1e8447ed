import RelayClient
import TestSupport
import TestTags
import Testing

/// Devices whose mailboxes nobody reads without a reason, and a link to Redis that breaks for one process alone.
@Suite(.tags(.processes)) struct MissedWakeUpsTests {
  /// The process that a message is sent to, and the one that its recipient is connected to.
  private enum Place: Int, Sendable { case senders, recipients }

  private struct Site: Sendable {
    let team: RelayTeam
    let fleet: LiveFleet
    let link: LinkProxy
    let redis: RedisServer
    let entrance: RelayClient

    func send() async throws {
      _ = try await fleet.send(from: fleet.devices[0], to: fleet.devices[1], by: entrance)
    }

    /// The link leads to Redis again.
    func mend() {
      link.lead(to: redis.port)
      link.set(.whole)
    }
  }

  /// Runs `body` with two processes, of which the one at `place` reaches Redis by a link that can break.
  /// - Parameter pollSeconds: how often mailboxes are read while wake-ups may be lost.
  private static func with(
    on servers: Cluster.Servers, linkAt place: Place, pollSeconds: Int, _ body: @Sendable (Site) async throws -> Void
  ) async throws {
    var settings = Cluster.unlimited
    settings["RELAY_MESSAGES_POLL_SECONDS"] = "\(pollSeconds)"
    settings["RELAY_MESSAGES_POLL_STEADY_SECONDS"] = "3600"
    try await Cluster.with(on: servers, settings: settings) { cluster in
      let link = try await LinkProxy(to: cluster.redis.port)
      let behindLink = ["RELAY_COORDINATION_URL": "redis://127.0.0.1:\(link.port)"]
      try await RelayTeam.with(
        try RelayPorts.free(2), of: cluster.site, settings: { $0 == place.rawValue ? behindLink : [:] }
      ) { team in
        let fleet = try await LiveFleet(2, registeredAt: try team.process(0))
        let entrances = try team.urls.map { try RelayClient.entrance($0) }
        for process in team.all { try await process.untilCoordination(isAvailable: true) }
        try await fleet.connected(by: [entrances[Place.recipients.rawValue]], SeededGenerator(seed: 1)) {
          try await body(
            Site(
              team: team, fleet: fleet, link: link, redis: cluster.redis,
              entrance: entrances[Place.senders.rawValue]))
        }
        let audit = fleet.ledger.audit()
        #expect(audit.isClean, "\(audit)")
        #expect(fleet.devices[1].connections == 1, "\(fleet.devices[1].ends)")
      }
      try await link.close()
    }
  }

  @Test(arguments: Cluster.Servers.allCases)
  func `a message that came while the subscription was broken is delivered once it stands again`(
    on servers: Cluster.Servers
  ) async throws {
    try await Self.with(on: servers, linkAt: .recipients, pollSeconds: 3600) { site in
      site.link.lead(to: 1)  // Nobody listens there.
      site.link.endAll()
      try await site.team.process(Place.recipients.rawValue).untilCoordination(isAvailable: false)
      try await site.send()
      site.mend()
      _ = try await site.fleet.untilDelivered(within: .seconds(60))
    }
  }

  /// Redis takes the process for a listener.
  @Test(arguments: Cluster.Servers.allCases)
  func `a message that came while the subscription was silent is delivered once it stands again`(
    on servers: Cluster.Servers
  ) async throws {
    try await Self.with(on: servers, linkAt: .recipients, pollSeconds: 3600) { site in
      site.link.set(.cut)
      try await site.send()
      try await site.team.process(Place.recipients.rawValue).untilCoordination(isAvailable: false)
      site.mend()
      _ = try await site.fleet.untilDelivered(within: .seconds(60))
    }
  }

  @Test(arguments: Cluster.Servers.allCases)
  func `a process that could not wake a device elsewhere wakes it once it reaches Redis again`(
    on servers: Cluster.Servers
  ) async throws {
    try await Self.with(on: servers, linkAt: .senders, pollSeconds: 3600) { site in
      site.link.lead(to: 1)
      site.link.endAll()
      try await site.team.process(Place.senders.rawValue).untilCoordination(isAvailable: false)
      for _ in 1...3 { try await site.send() }
      site.mend()
      _ = try await site.fleet.untilDelivered(within: .seconds(60))
    }
  }

  @Test(arguments: Cluster.Servers.allCases)
  func `a process that stays cut off from Redis has mailboxes read by its word in the store`(
    on servers: Cluster.Servers
  ) async throws {
    try await Self.with(on: servers, linkAt: .senders, pollSeconds: 5) { site in
      site.link.lead(to: 1)
      site.link.endAll()
      try await site.team.process(Place.senders.rawValue).untilCoordination(isAvailable: false)
      for _ in 1...3 {
        try await site.send()
        _ = try await site.fleet.untilDelivered(within: .seconds(60))
      }
      site.mend()
    }
  }

  @Test(arguments: Cluster.Servers.allCases)
  func `if a process dies before it wakes a device, the next one to start has all mailboxes read`(
    on servers: Cluster.Servers
  ) async throws {
    try await Self.with(on: servers, linkAt: .senders, pollSeconds: 5) { site in
      site.link.lead(to: 1)
      site.link.endAll()
      try await site.team.process(Place.senders.rawValue).untilCoordination(isAvailable: false)
      try await site.send()
      try await site.team.kill9([Place.senders.rawValue], pause: .zero)
      site.mend()
      _ = try await site.fleet.untilDelivered(within: .seconds(90))
    }
  }

  @Test(arguments: Cluster.Servers.allCases)
  func `if a process dies before it wakes a device, and none starts, the others find it dead`(
    on servers: Cluster.Servers
  ) async throws {
    try await Self.with(on: servers, linkAt: .senders, pollSeconds: 5) { site in
      site.link.lead(to: 1)
      site.link.endAll()
      let process = try site.team.process(Place.senders.rawValue)
      try await process.untilCoordination(isAvailable: false)
      try await site.send()
      await process.kill9()
      _ = try await site.fleet.untilDelivered(within: .seconds(90))
      site.mend()
      try await site.team.start(Place.senders.rawValue)
    }
  }
}
