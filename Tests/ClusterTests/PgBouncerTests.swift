import ChildProcesses
import Foundation
import Glibc
import TestSupport
import TestTags
import Testing

/// A relay behind PgBouncer, as docs/deploy.md has it.
@Suite(.tags(.processes)) struct PgBouncerTests {
  @Test func `in session mode everything is served`() async throws {
    let postgres = try await Loopback.blocking { try PostgresServer.shared() }
    let database = try await Loopback.blocking { try postgres.createDatabase() }
    let name = String(try #require(database.split(separator: "/").last))
    try await RedisServer.with { redis in
      try await Self.with("session", before: postgres, name) { port in
        let url = database.replacing(":\(postgres.port)/", with: ":\(port)/")
        try await RelayOperator.with(
          stores: .servers(storage: url, coordination: redis.url), settings: Cluster.unlimited
        ) { site in
          try await site.relay("migrate", "run")
          let relays = [try await site.serve(), try await site.serve()]
          let (ann, bob) = (try await relays[0].register(), try await relays[1].register())
          try await relays[0].upload(Array(1...3), as: bob)
          for (index, relay) in relays.enumerated() {
            let body = #"{"timestamp":\#(index + 1),"messages":[\#(message(registrationID: bob.registrationID))]}"#
            #expect(try await relay.send("PUT", "/v1/messages/\(bob.number)", json: body, as: ann).status == 200)
            #expect(try await relay.send("GET", "/v1/keys/\(bob.number)/1", as: ann).status == 200)
          }
          let waiting = try await relays[0].send("GET", "/v1/messages/", as: bob).list("messages")
          #expect(waiting.count == 2)
          let doctor = try await site.run(
            ["doctor", "--json"],
            overrides: [
              "RELAY_CLIENT_PORT": "\(relays[0].clientPort)", "RELAY_OPERATOR_PORT": "\(relays[0].operatorPort)",
            ])
          let found = try doctor.json([Found].self).filter { ["storage", "schema"].contains($0.group) }
          #expect(!found.isEmpty && found.allSatisfy { $0.outcome != "fail" }, "\(found)")
          for relay in relays { #expect(await relay.terminate() == .code(0)) }
        }
      }
    }
  }

  private struct Found: Decodable {
    let group: String
    let check: String
    let outcome: String
    let text: String
  }

  /// Runs `body` with a PgBouncer in front of a database. - Parameter body: is called with its port.
  private static func with(
    _ mode: String, before postgres: PostgresServer, _ database: String, _ body: (Int) async throws -> Void
  ) async throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: "relay-pgbouncer-\(UUID().uuidString)").path
    try FileManager.default.createDirectory(
      atPath: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o777])
    defer { try? FileManager.default.removeItem(atPath: folder) }  // A leftover there hurts nobody.
    let port = try Loopback.freePorts(1)[0]
    try """
    [databases]
    \(database) = host=127.0.0.1 port=\(postgres.port) dbname=\(database) user=relay
    [pgbouncer]
    listen_addr = 127.0.0.1
    listen_port = \(port)
    unix_socket_dir =
    auth_type = any
    pool_mode = \(mode)
    # Seven connections a relay process, and those of commands.
    default_pool_size = 40
    max_client_conn = 200

    """.write(toFile: folder + "/pgbouncer.ini", atomically: true, encoding: .utf8)
    let process = try await ChildProcess.start(
      .init(
        command: ["/usr/sbin/pgbouncer", folder + "/pgbouncer.ini"], environment: ["PATH": "/usr/bin:/bin"],
        folder: folder, standardOutput: folder + "/log", standardError: folder + "/log",
        user: geteuid() == 0 ? "postgres" : nil))
    do {
      try await eventually("PgBouncer listens", within: .seconds(30)) {
        if let exit = process.exit {
          throw TestFailure(
            "pgbouncer \(exit): \((try? String(contentsOfFile: folder + "/log", encoding: .utf8)) ?? "")")
        }
        return (try? Loopback.connect(to: port, patience: 1)).map { close($0) } != nil
      }
      try await body(port)
    } catch {
      await process.stop(SIGKILL)
      throw error
    }
    await process.stop(SIGKILL)
  }
}
