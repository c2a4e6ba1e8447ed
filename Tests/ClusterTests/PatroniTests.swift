import ChildProcesses
import TestSupport
import TestTags
import Testing

/// Patroni moves the primary, and relays whose URL names both hosts follow: docs/scale.md's configuration.
@Suite(
  .tags(.time), .serialized, .enabled(if: PatroniCluster.isInstalled, "patroni and etcd-server are not installed"))
struct PatroniTests {
  @Test
  func `a switch-over and a killed leader under 32 senders: nothing accepted is lost, and relays serve within 5 s`()
    async throws
  {
    try await PatroniCluster.with { cluster in
      try await RedisServer.with { redis in
        try await RelayOperator.with(
          stores: .servers(storage: cluster.url, coordination: redis.url), settings: Cluster.unlimited
        ) { site in
          try await site.relay("migrate", "run")
          try await RelayTeam.with(2, of: site) { team in
            let relays = [try team.process(0), try team.process(1)]
            let probe = try await Probe(at: relays)
            let first = try await Storm(senders: 32, at: relays)
            try await first.run(messages: 60) {
              try await cluster.switchOver()
              try await probe.expectService(at: relays)
            }
            try await first.check(at: relays[0])

            try await cluster.untilSynchronous()
            let second = try await Storm(senders: 32, at: relays)
            try await second.run(messages: 60) {
              let former = try await cluster.killLeader()
              try await probe.expectService(at: relays)
              // It comes back as a standby, and no relay stays there.
              try await cluster.start(former)
              try await cluster.untilSynchronous()
              try await eventually("all sessions are at the leader") {
                let here = try await cluster.relaySessions(at: cluster.other(than: former))
                let there = try await cluster.relaySessions(at: former)
                return here >= relays.count * 6 && there == 0
              }
            }
            try await second.check(at: relays[1])
            for relay in relays { #expect(relay.child.exit == nil, "no restart") }
          }
        }
      }
    }
  }
}
