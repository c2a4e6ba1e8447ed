// Somebody stands between the relay and its stores, with a server of his own.

import ChildProcesses
import Foundation
import TestSupport
import TestTags
import Testing

@Suite(.tags(.processes)) struct FalseServerTests {
  private static func files(_ folder: String, trusting authority: TestAuthority, from own: TestAuthority) throws
    -> [String: String]
  {
    try authority.pem.write(toFile: folder + "/authority.pem", atomically: true, encoding: .utf8)
    try own.leaf(relay: nil).write(chain: folder + "/relay.pem", key: folder + "/relay.key")
    try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: folder + "/relay.key")
    return [
      "RELAY_COORDINATION_TLS_CA": folder + "/authority.pem",
      "RELAY_COORDINATION_TLS_CERTIFICATE": folder + "/relay.pem",
      "RELAY_COORDINATION_TLS_KEY": folder + "/relay.key",
    ]
  }

  private static func doctor(_ site: RelayOperator, _ overrides: [String: String]) async throws -> CommandResult {
    let ports = try Loopback.freePorts(2)
    return try await site.run(
      ["doctor"],
      overrides: overrides.merging([
        "RELAY_CLIENT_PORT": "\(ports[0])", "RELAY_OPERATOR_PORT": "\(ports[1])",
      ]) { $1 })
  }

  /// Serves on a Redis inside TLS: the right one, and one that somebody put in its place.
  @Test func `a false Redis hears nothing`() async throws {
    let (right, wrong) = (try TestAuthority("right"), try TestAuthority("wrong"))
    try await RelayOperator.with { site in
      let settings = try Self.files(site.folder, trusting: right, from: right)
      try await RedisServer.with(password: "secret", tls: ServerTLS(right.leaf(relay: nil), clients: right)) { redis in
        let url = ["RELAY_COORDINATION_URL": "rediss://:secret@localhost:\(redis.tlsPort ?? 0)"]
        let relay = try await site.serve(settings.merging(url) { $1 })
        _ = try await relay.register()
        #expect(try redis.command("DBSIZE") != ":0")
        let report = try await Self.doctor(site, settings.merging(url) { $1 })
        #expect(report.output.contains("TLSv1.3: the server's certificate is verified, we present ours"))
        #expect(await relay.terminate() == .code(0))
        #expect(!relay.log().contains("Redis is away"), "\(relay.log())")
      }
      // It takes anybody's password, and presents what its own CA signed.
      try await RedisServer.with(tls: ServerTLS(wrong.leaf(relay: nil))) { redis in
        let url = ["RELAY_COORDINATION_URL": "rediss://localhost:\(redis.tlsPort ?? 0)"]
        let relay = try await site.startServing(settings.merging(url) { $1 })
        try await eventually("the false server is named") {
          relay.log().contains("the certificate of localhost is refused: no CA that is trusted has signed it")
        }
        let report = try await Self.doctor(site, settings.merging(url) { $1 })
        #expect(report.exit == .code(1))
        #expect(
          report.output.contains(
            "Redis does not answer: the certificate of localhost is refused: no CA that is trusted has signed it"),
          "\(report.output)")
        #expect(try redis.command("DBSIZE") == ":0")
        await relay.kill9()
      }
    }
  }

  @Test func `a false PostgreSQL hears nothing`() async throws {
    let (right, wrong) = (try TestAuthority("right"), try TestAuthority("wrong"))
    let server = try await Loopback.blocking { try PostgresServer(tls: ServerTLS(right.leaf(relay: nil))) }
    let database = try await Loopback.blocking { try server.createDatabase() }
    try await RelayOperator.with { site in
      func url(_ authority: TestAuthority, _ mode: String) throws -> [String: String] {
        let file = site.folder + "/\(UUID().uuidString).pem"
        try authority.pem.write(toFile: file, atomically: true, encoding: .utf8)
        return ["RELAY_STORAGE_URL": "\(database)?sslmode=\(mode)&sslrootcert=\(file)"]
      }
      let verified = try url(right, "verify-full")
      try await site.relay("migrate", "run", overrides: verified)
      let relay = try await site.serve(verified)
      _ = try await relay.register()
      let report = try await Self.doctor(site, verified)
      #expect(report.output.contains("TLSv1.3, sslmode=verify-full: the server's name is verified"), "\(report.output)")
      #expect(await relay.terminate() == .code(0))

      let refused = try url(wrong, "verify-full")
      let second = try await site.startServing(refused)
      try await eventually("the false server is named") { second.log().contains("certificate verify failed") }
      await second.kill9()
      let refusal = try await Self.doctor(site, refused)
      #expect(refusal.exit == .code(1))
      #expect(refusal.output.contains("certificate verify failed"), "\(refusal.output)")
      #expect(refusal.output.contains("sslrootcert"))
    }
  }
}
