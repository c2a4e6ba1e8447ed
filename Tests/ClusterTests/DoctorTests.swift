import ChildProcesses
import Foundation
import Glibc
import TestSupport
import Testing

/// `relay doctor` names what is wrong and what to do, and says with its exit code whether anything is.
@Suite struct DoctorTests {
  private struct Diagnosis: Decodable {
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
      #expect(result.exit == .code(0), "\(found.filter { $0.outcome == "fail" })")
      #expect(found.allSatisfy { $0.outcome != "fail" && ($0.outcome != "warn" || $0.remedy?.isEmpty == false) })
      #expect(
        Set(found.map(\.group)) == [
          "configuration", "storage", "schema", "coordination", "clock", "certificates", "ports", "attachments",
          "outbox", "peers", "verification", "push",
        ])
      #expect(found.filter { $0.group == "ports" }.map(\.outcome) == ["ok", "ok", "ok"])
      #expect(found.filter { $0.group == "peers" }.map(\.check) == ["beta"])
      let text = try await sites.alpha.run(["doctor"], overrides: ports)
      #expect(text.exit == .code(0) && text.errors.contains("0 failed"))
    }
  }

  @Test func `nothing serves yet, and there is no database: warnings alone`() async throws {
    try await RelayOperator.with { site in
      let result = try await site.run(["doctor", "--json"], overrides: try Self.freePorts())
      let found = try result.json([Diagnosis].self)
      #expect(result.exit == .code(0), "\(found.filter { $0.outcome == "fail" })")
      #expect(found.filter { $0.group == "ports" }.map(\.outcome) == ["warn", "warn", "skip"])
      #expect(found.first { $0.group == "storage" }?.remedy?.contains("relay serve") == true)
      #expect(!FileManager.default.fileExists(atPath: site.folder + "/relay.sqlite"))
    }
  }

  @Test func `a broken configuration exits with 78, each fault a finding`() async throws {
    try await RelayOperator.with { site in
      let faults = ["RELAY_CLIENT_PROT": "1", "RELAY_OPERATOR_PORT": "99999"]
      let result = try await site.run(["doctor", "--json"], overrides: faults)
      #expect(result.exit == .code(78))
      let found = try result.json([Diagnosis].self)
      #expect(found.count == 2 && found.allSatisfy { $0.group == "configuration" && $0.outcome == "fail" })
    }
  }

  @Test func `stopped servers are named, and what is not theirs is looked at all the same`() async throws {
    try await Cluster.with(ownPostgres: true) { cluster in
      let ports = try Self.freePorts()
      let before = try await cluster.site.run(["doctor", "--json"], overrides: ports)
      #expect(before.exit == .code(0), "\(before.output)")
      let healthy = try before.json([Diagnosis].self)
      #expect(healthy.first { $0.group == "storage" && $0.check == "server" }?.text.contains("PostgreSQL") == true)
      #expect(healthy.first { $0.group == "storage" && $0.check == "durability" }?.outcome == "ok")
      #expect(healthy.filter { $0.group == "coordination" }.allSatisfy { $0.outcome == "ok" })
      #expect(healthy.filter { $0.group == "clock" }.map(\.outcome) == ["ok", "ok"])

      cluster.redis.stop()
      let withoutRedis = try await cluster.site.run(["doctor", "--json"], overrides: ports)
      #expect(withoutRedis.exit == .code(1))
      let missing = try withoutRedis.json([Diagnosis].self).filter { $0.outcome == "fail" }
      #expect(missing.map(\.group) == ["coordination"], "\(missing)")
      #expect(missing.first?.remedy?.contains("coordination.url") == true)

      try await Loopback.blocking { try cluster.postgres.stop() }
      let result = try await cluster.site.run(["doctor", "--json"], overrides: ports)
      #expect(result.exit == .code(1))
      let found = try result.json([Diagnosis].self)
      let failed = found.filter { $0.outcome == "fail" }
      #expect(failed.contains { $0.group == "storage" && $0.remedy?.contains("storage.url") == true })
      #expect(failed.contains { $0.group == "coordination" })
      #expect(found.contains { $0.group == "attachments" && $0.outcome != "fail" })
      try await Loopback.blocking { try cluster.postgres.start() }
    }
  }

  @Test func `a schema that is too old names the command that mends it`() async throws {
    let postgres = try await Loopback.blocking { try PostgresServer.shared() }
    let database = try await Loopback.blocking { try postgres.createDatabase() }
    try await RedisServer.with { redis in
      try await RelayOperator.with(stores: .servers(storage: database, coordination: redis.url)) { site in
        let result = try await site.run(["doctor", "--json"], overrides: try Self.freePorts())
        #expect(result.exit == .code(1))
        let failed = try result.json([Diagnosis].self).first { $0.group == "schema" && $0.outcome == "fail" }
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
      let failed = try result.json([Diagnosis].self).filter { $0.outcome == "fail" }
      #expect(failed.map(\.group) == ["ports"] && failed.map(\.check) == ["client"])
      #expect(failed.first?.remedy?.contains("client.port") == true)
    }
  }

  @Test func `a leaf that has ended, keys that others can read, and a peer that is away`() async throws {
    try await PeeredSites.with { sites in
      let ports = PeeredSites.ports(sites.alpha, sites.alphaRelay)
      await sites.betaRelay.terminate()
      let away = try await sites.alpha.run(["doctor", "--json"], overrides: ports).json([Diagnosis].self)
      let failed = away.filter { $0.outcome == "fail" }
      #expect(failed.map(\.check) == ["beta tcp"])
      #expect(failed.first?.remedy?.contains("firewalls") == true)

      await sites.alphaRelay.terminate()
      try sites.alpha.issueLeaf(daysAgo: 100)
      #expect(chmod(sites.alpha.folder + "/federation/leaf.key", 0o644) == 0)
      let result = try await sites.alpha.run(["doctor", "--json"], overrides: ports)
      #expect(result.exit == .code(1))
      let found = try result.json([Diagnosis].self).filter { $0.group == "certificates" && $0.outcome == "fail" }
      #expect(found.map(\.check) == ["leaf", "leaf key"])
      #expect(found.first?.remedy?.contains("relay ca renew") == true)
      #expect(found.last?.remedy?.contains("chmod 600") == true)
    }
  }

  private static func freePorts() throws -> [String: String] {
    let ports = try Loopback.freePorts(2)
    return ["RELAY_CLIENT_PORT": "\(ports[0])", "RELAY_OPERATOR_PORT": "\(ports[1])"]
  }
}
