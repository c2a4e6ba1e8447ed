import ChildProcesses
import RelayClient
import TestSupport
import TestTags
import Testing

/// Replacing every process of an operator, one after the other, behind a balancer with the file of deploy: nobody
/// notices more than a reconnect.
@Suite(.tags(.time), .serialized) struct RollingRestartTests {
  @Test func `behind HAProxy no request fails, and no message is lost`() async throws {
    try await Self.withTeam { team in
      try await HAProxyServer.with(before: team.ports) { balancer in
        try await Self.run(team, try RelayClient.entrance(balancer.url, patience: .seconds(60))) { balancer.log() }
      }
    }
  }

  @Test func `behind nginx, which ends TLS, no request fails, and no message is lost`() async throws {
    try await Self.withTeam { team in
      let authority = try TestAuthority()
      try await NginxServer.with(before: team.ports, authority: authority) { balancer in
        var options = RelayClient.Options()
        options.trustRootsPEM = try authority.pem
        options.requestTimeout = .seconds(60)
        options.connectionsMax = 64
        try await Self.run(team, try RelayClient(url: balancer.url, options: options)) { balancer.log() }
      }
    }
  }

  /// Three processes of an operator.
  private static func withTeam(_ body: @Sendable (RelayTeam) async throws -> Void) async throws {
    var settings = Cluster.unlimited
    settings["RELAY_LIMITS_MESSAGES_PER_MINUTE"] = "1000000"
    settings["RELAY_DRAIN_SECONDS"] = "5"
    settings["RELAY_CLIENT_TRUSTED_PROXIES"] = "127.0.0.1"
    try await Cluster.with(settings: settings) { cluster in
      try await RelayTeam.with(3, of: cluster.site) { team in try await body(team) }
    }
  }

  private static func run(
    _ team: RelayTeam, _ entrance: RelayClient, _ log: @Sendable () -> String
  ) async throws {
    let fleet = try await LiveFleet(24, registeredAt: try team.process(0))
    let (failures, exits, progress) = (Ledger<String>(), Ledger<String>(), Ledger<Int>())
    var random = SeededGenerator(seed: 1)
    let writing = random.split()
    let audit = try await fleet.connected(by: [entrance], random.split()) {
      try await withThrowingTaskGroup(of: Void.self) { group in
        group.addTask {
          for index in team.ports.indices {
            let exit = try await team.replace(index)
            exits.add("\(exit)")
            progress.add(index)
          }
        }
        // Until all are replaced, and a little longer.
        group.addTask {
          try await fleet.send(
            100_000, lanes: 8, pause: .milliseconds(40), by: [entrance], .once(failures), writing
          ) { progress.count < team.ports.count }
        }
        try await group.waitForAll()
      }
      return try await fleet.settle(within: .seconds(120), at: entrance)
    }
    let requests = audit.accepted + failures.count
    print("rolling restart: \(requests) requests, \(failures.count) failed\n\(audit)\n\(fleet.summary)")
    #expect(exits.all == Array(repeating: "\(ChildProcess.Exit.code(0))", count: team.ports.count))
    #expect(failures.all.isEmpty, "\(failures.all.prefix(5)) \(log().suffix(2000))")
    #expect(audit.isClean, "\(audit)")
    #expect(audit.accepted > 100, "there was a load")
    let closes = fleet.devices.flatMap(\.closes)
    #expect(closes.count >= fleet.devices.count, "every device was sent elsewhere at least once")
    #expect(fleet.closeCodes == [1012], "\(fleet.summary)")
    #expect(fleet.faults.isEmpty, "\(fleet.faults.prefix(5))")
    let refused = fleet.devices.flatMap(\.failures)
    #expect(refused.isEmpty, "nobody who came back was turned away: \(refused.prefix(5))")
    #expect(fleet.sentOverSockets > 0)
  }
}
