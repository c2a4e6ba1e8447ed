import ChildProcesses
import Foundation
import Glibc
import TestSupport
import TestTags
import Testing

/// `relay doctor` names what is wrong and what to do, and says with its exit code whether anything is.
@Suite(.tags(.processes)) struct DoctorTests {
  struct Diagnosis: Decodable {
    let group: String
    let check: String
    let outcome: String
    let text: String
    let remedy: String?
  }

  @Test func `all is well: exit code 0, every group looked at, the way to the peer included`() async throws {
    try await PeeredSites.with { sites in
      let ports = PeeredSites.ports(sites.alpha, sites.alphaRelay)
      let result = try await sites.alpha.run(["doctor", "--messages", "--json"], overrides: ports)
      let found = try result.json([Diagnosis].self)
      #expect(result.exit == .code(0), "\(found.failed)")
      #expect(found.with("warn").allSatisfy { $0.remedy?.isEmpty == false })
      #expect(
        Set(found.map(\.group)) == [
          "configuration", "storage", "schema", "coordination", "clock", "certificates", "ports", "attachments",
          "outbox", "peers", "verification", "push",
        ])
      #expect(found.of("ports").map(\.outcome) == ["ok", "ok", "ok"])
      #expect(found.of("peers").map(\.check) == ["beta"])
      let text = try await sites.alpha.run(["doctor"], overrides: ports)
      #expect(text.exit == .code(0) && text.errors.contains("0 failed"))
    }
  }

  @Test func `nothing serves yet, and there is no database: warnings alone`() async throws {
    try await RelayOperator.with { site in
      let result = try await site.run(["doctor", "--json"], overrides: try Self.freePorts())
      let found = try result.json([Diagnosis].self)
      #expect(result.exit == .code(0), "\(found.failed)")
      #expect(found.of("ports").map(\.outcome) == ["warn", "warn", "skip"])
      #expect(found.of("storage").first?.remedy?.contains("relay serve") == true)
      #expect(!FileManager.default.fileExists(atPath: site.folder + "/relay.sqlite"))
    }
  }

  @Test func `a broken configuration exits with 78, each fault a finding`() async throws {
    try await RelayOperator.with { site in
      let faults = ["RELAY_CLIENT_PROT": "1", "RELAY_OPERATOR_PORT": "99999"]
      let result = try await site.run(["doctor", "--json"], overrides: faults)
      #expect(result.exit == .code(78))
      let found = try result.json([Diagnosis].self)
      #expect(found.count == 2 && found.of("configuration").failed.count == 2)
    }
  }

  @Test func `stopped servers are named, and what is not theirs is looked at all the same`() async throws {
    try await Cluster.with(ownPostgres: true) { cluster in
      let ports = try Self.freePorts()
      let before = try await cluster.site.run(["doctor", "--json"], overrides: ports)
      #expect(before.exit == .code(0), "\(before.output)")
      let healthy = try before.json([Diagnosis].self)
      #expect(healthy.of("storage", "server").first?.text.contains("PostgreSQL") == true)
      #expect(healthy.of("storage", "durability").map(\.outcome) == ["ok"])
      #expect(healthy.of("coordination").map(\.outcome) == ["ok", "ok", "ok"])
      #expect(healthy.of("clock").map(\.outcome) == ["ok", "ok", "ok"])
      #expect(healthy.of("storage", "locks").map(\.outcome) == ["ok"])

      cluster.redis.stop()
      let withoutRedis = try await cluster.site.run(["doctor", "--json"], overrides: ports)
      #expect(withoutRedis.exit == .code(1))
      let missing = try withoutRedis.json([Diagnosis].self).failed
      #expect(missing.map(\.group) == ["coordination"], "\(missing)")
      #expect(missing.first?.remedy?.contains("coordination.url") == true)

      try await Loopback.blocking { try cluster.postgres.stop() }
      let result = try await cluster.site.run(["doctor", "--json"], overrides: ports)
      #expect(result.exit == .code(1))
      let found = try result.json([Diagnosis].self)
      #expect(found.failed.map(\.group) == ["storage", "coordination"])
      #expect(found.failed.first?.remedy?.contains("storage.url") == true)
      #expect(found.of("attachments").map(\.outcome) == ["warn"])
      try await Loopback.blocking { try cluster.postgres.start() }
    }
  }

  @Test func `a Redis that has become a replica is called one`() async throws {
    try await Cluster.with { cluster in
      try await RedisServer.with { primary in
        try cluster.redis.follow(primary)
        let result = try await cluster.site.run(["doctor", "--json"], overrides: try Self.freePorts())
        #expect(result.exit == .code(1))
        let failed = try result.json([Diagnosis].self).failed
        #expect(failed.map(\.group) == ["coordination"], "\(failed)")
        #expect(failed.first?.text.hasPrefix("Redis is a replica and takes no writes") == true, "\(failed)")
        #expect(failed.first?.remedy?.contains("REPLICAOF NO ONE") == true)
      }
    }
  }

  @Test func `a schema that is too old names the command that mends it`() async throws {
    let postgres = try await Loopback.blocking { try PostgresServer.shared() }
    let database = try await Loopback.blocking { try postgres.createDatabase() }
    try await RedisServer.with { redis in
      try await RelayOperator.with(stores: .servers(storage: database, coordination: redis.url)) { site in
        let result = try await site.run(["doctor", "--json"], overrides: try Self.freePorts())
        #expect(result.exit == .code(1))
        let failed = try result.json([Diagnosis].self).of("schema").failed.first
        #expect(failed?.remedy?.contains("relay migrate run") == true)
      }
    }
  }

  @Test func `a port that somebody else holds is a failure`() async throws {
    try await RelayOperator.with { site in
      let (descriptor, port) = try Loopback.listen()
      defer { close(descriptor) }
      var ports = try Self.freePorts()
      ports["RELAY_CLIENT_PORT"] = "\(port)"
      let result = try await site.run(["doctor", "--json"], overrides: ports)
      #expect(result.exit == .code(1))
      let failed = try result.json([Diagnosis].self).failed
      #expect(failed.map(\.group) == ["ports"] && failed.map(\.check) == ["client"])
      #expect(failed.first?.remedy?.contains("client.port") == true)
    }
  }

  @Test func `a leaf that has ended, keys that others can read, and a peer that is away`() async throws {
    try await PeeredSites.with { sites in
      let ports = PeeredSites.ports(sites.alpha, sites.alphaRelay)
      await sites.betaRelay.terminate()
      let away = try await sites.alpha.run(["doctor", "--json"], overrides: ports).json([Diagnosis].self)
      #expect(away.failed.map(\.check) == ["beta tcp"])
      #expect(away.failed.first?.remedy?.contains("firewalls") == true)

      await sites.alphaRelay.terminate()
      try sites.alpha.issueLeaf(daysAgo: 100)
      #expect(chmod(sites.alpha.folder + "/federation/leaf.key", 0o644) == 0)
      let result = try await sites.alpha.run(["doctor", "--json"], overrides: ports)
      #expect(result.exit == .code(1))
      let found = try result.json([Diagnosis].self).of("certificates").failed
      #expect(found.map(\.check) == ["leaf", "leaf key"])
      #expect(found.first?.remedy?.contains("relay ca renew") == true)
      #expect(found.last?.remedy?.contains("chmod 600") == true)

      // A group that needs the key may read it.
      #expect(chmod(sites.alpha.folder + "/federation/leaf.key", 0o640) == 0)
      let grouped = try await sites.alpha.run(["doctor", "--json"], overrides: ports).json([Diagnosis].self)
      #expect(grouped.of("certificates").failed.map(\.check) == ["leaf"])
    }
  }

  @Test func `the clients' certificate with another's key`() async throws {
    try await RelayOperator.with { site in
      let (chain, key) = (site.folder + "/chain.pem", site.folder + "/key.pem")
      let authority = try TestAuthority("clients")
      let until = Date(timeIntervalSinceNow: 60 * 86_400)
      try authority.leaf(relay: nil, until: until).write(chain: chain, key: key)
      #expect(chmod(key, 0o600) == 0)
      var settings = ["RELAY_CLIENT_TLS_CERTIFICATE": chain, "RELAY_CLIENT_TLS_KEY": key]
      settings.merge(try Self.freePorts()) { $1 }
      let before = try await site.run(["doctor", "--json"], overrides: settings).json([Diagnosis].self)
      #expect(before.of("certificates").failed.isEmpty)

      try authority.leaf(relay: nil, until: until).write(chain: site.folder + "/other.pem", key: key)
      let result = try await site.run(["doctor", "--json"], overrides: settings)
      #expect(result.exit == .code(1))
      let found = try result.json([Diagnosis].self).of("certificates").failed
      #expect(found.map(\.check) == ["client"])
      #expect(found.first?.text.contains("do not belong together") == true)
    }
  }

  private static func freePorts() throws -> [String: String] {
    let ports = try Loopback.freePorts(2)
    return ["RELAY_CLIENT_PORT": "\(ports[0])", "RELAY_OPERATOR_PORT": "\(ports[1])"]
  }
}

extension [DoctorTests.Diagnosis] {
  fileprivate var failed: Self { with("fail") }
  fileprivate func with(_ outcome: String) -> Self { filter { $0.outcome == outcome } }
  fileprivate func of(_ group: String, _ check: String? = nil) -> Self {
    filter { $0.group == group && (check == nil || $0.check == check) }
  }
}
