import ChildProcesses
import Foundation
import TestSupport
import TestTags
import Testing

/// States of a store that are only seconds older than the keys that were handed out: a standby that lags, a young copy.
@Suite(.tags(.processes)) struct RestoreYoungTests {
  /// Where a standby that lags is promoted.
  enum Place: Sendable, CaseIterable {
    /// It takes over the address of the primary, as behind a name or a proxy.
    case atItsAddress
    /// It is another host of the URL.
    case atAnotherHost
  }

  @Test(arguments: [true, false], Place.allCases)
  func `a standby that lags is promoted: no one-time key is handed out twice`(isRestarted: Bool, place: Place)
    async throws
  {
    try await RestoreTests.withServers { site, postgres, redis in
      let port = try Loopback.freePorts(1)[0]
      let both = postgres.database.replacing("/test_", with: ",127.0.0.1:\(port)/test_")
      let settings = place == .atAnotherHost ? ["RELAY_STORAGE_URL": both] : [:]
      let relay = try await site.serve(settings)
      let owner = try await relay.register()
      let caller = try await relay.register()
      try await relay.upload(Array(1...20), as: owner)
      var drawn = try await RestoreTests.draw(2, of: owner, as: caller, at: relay)
      let standby = try await Loopback.blocking { try PostgresStandby(of: postgres.server, at: port) }
      try await eventually("the standby has caught up") { try await Loopback.blocking { try standby.hasCaughtUp() } }
      try await Loopback.blocking { try standby.cutOff() }
      let epoch = try await postgres.epoch()
      // The second in which the standby was cut off ends: an epoch follows that it lacks.
      drawn += try await RestoreTests.draw(1, of: owner, as: caller, at: relay)
      try await eventually("the epoch has risen") { try await postgres.epoch() > epoch }
      drawn += try await RestoreTests.draw(5, of: owner, as: caller, at: relay)
      #expect(drawn == Array(1...8))
      if isRestarted { await relay.kill9() }
      try await Loopback.blocking {
        if place == .atAnotherHost { try standby.promote() } else { try standby.takeOver() }
      }
      let relays = isRestarted ? [try await site.serve(settings), try await site.serve(settings)] : [relay]
      for relay in relays {
        let after = try await RestoreTests.draw(3, of: owner, as: caller, at: relay)
        #expect(Set(after).isDisjoint(with: drawn), "handed out twice")
      }
      try await eventually("a process says so") {
        relays.contains { $0.log().contains("the store was put back to an older state") }
      }
      try await RestoreTests.expectRefilled(owner, caller, at: relays[0])
      for relay in relays { #expect(await relay.terminate() == .code(0)) }
      withExtendedLifetime((redis, standby)) {}
    }
  }

  @Test func `a store that goes back from one draw to the next, without a failed call, hands out no key twice`()
    async throws
  {
    try await RestoreTests.withServers { site, postgres, redis in
      let relay = try await site.serve()
      let owner = try await relay.register()
      let caller = try await relay.register()
      try await relay.upload(Array(1...100), as: owner)
      try await postgres.sql("CREATE TABLE kept_keys AS SELECT * FROM one_time_prekeys")
      try await postgres.sql("CREATE TABLE kept_epochs AS SELECT * FROM epochs")
      let epoch = try await postgres.epoch()
      try await eventually("the epoch has risen while keys are handed out") {
        #expect(try await RestoreTests.draw(1, of: owner, as: caller, at: relay) != [RestoreTests.lastResort])
        return try await postgres.epoch() > epoch
      }
      _ = try await RestoreTests.draw(3, of: owner, as: caller, at: relay)
      try await postgres.sql(
        """
        BEGIN; DELETE FROM one_time_prekeys; INSERT INTO one_time_prekeys SELECT * FROM kept_keys;
        UPDATE epochs SET value = (SELECT value FROM kept_epochs); COMMIT
        """)
      let after = try await RestoreTests.draw(3, of: owner, as: caller, at: relay)
      #expect(after == Array(repeating: RestoreTests.lastResort, count: 3))
      try await RestoreTests.expectSetAside(owner, caller, at: relay)
      #expect(await relay.terminate() == .code(0))
      withExtendedLifetime(redis) {}
    }
  }

  @Test func `a copy of an embedded store that is seconds old is recognised by Redis`() async throws {
    try await RedisServer.with { redis in
      let settings = RelayUnderTest.unlimited.merging(["RELAY_COORDINATION_URL": redis.url]) { $1 }
      try await RelayOperator.with(settings: settings) { site in
        let first = try await site.serve()
        let owner = try await first.register()
        let caller = try await first.register()
        try await first.upload(Array(1...10), as: owner)
        #expect(try await RestoreTests.draw(1, of: owner, as: caller, at: first) == [1])
        #expect(await first.terminate() == .code(0))
        let backup = try RestoreTests.Backup(of: site)

        // Nothing is waited for: the epoch is witnessed before the first key is handed out.
        let second = try await site.serve()
        #expect(try await RestoreTests.draw(3, of: owner, as: caller, at: second) == [2, 3, 4])
        await second.kill9()
        try backup.restore()
        let third = try await site.serve()
        try await RestoreTests.expectSetAside(owner, caller, at: third)
        #expect(await third.terminate() == .code(0))
      }
    }
  }
}
