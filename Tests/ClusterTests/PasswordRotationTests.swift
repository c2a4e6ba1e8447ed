import ChildProcesses
import Foundation
import TestSupport
import TestTags
import Testing

/// Passwords of the stores change under a running relay, whose URLs stand in files of their own.
@Suite(.tags(.processes)) struct PasswordRotationTests {
  @Test func `a relay that loses its stores comes back with the passwords that its files hold by then`() async throws {
    let postgres = try await Loopback.blocking { try PostgresServer() }
    let database = try await Loopback.blocking { try postgres.createDatabase() }
    _ = try await Loopback.blocking { try postgres.addRole("keeper", password: "one", to: database) }
    try await RedisServer.with(password: "one") { redis in
      try await RelayOperator.with { site in
        let (storage, coordination) = (site.folder + "/storage-url", site.folder + "/coordination-url")
        func write(_ password: String) throws {
          try (PostgresServer.url(database, as: "keeper", password: password) + "\n").write(
            toFile: storage, atomically: true, encoding: .utf8)
          try "redis://:\(password)@127.0.0.1:\(redis.port)\n".write(
            toFile: coordination, atomically: true, encoding: .utf8)
        }
        try write("one")
        let relay = try await site.serve([
          "RELAY_STORAGE_URL": "", "RELAY_STORAGE_URL_FILE": storage, "RELAY_COORDINATION_URL_FILE": coordination,
          "RELAY_STORAGE_MIGRATE": "true",
        ])
        let device = try await relay.register()
        func isServed() async throws -> Bool { try await relay.send("GET", "/v1/keys", as: device).status == 200 }
        try await relay.untilCoordination(isAvailable: true)

        try write("two")
        try await Loopback.blocking { try postgres.changePassword(of: "keeper", to: "two") }
        try redis.changePassword(to: "two")
        try redis.command("CLIENT KILL TYPE pubsub")
        try redis.command("CLIENT KILL TYPE normal")
        try await eventually("PostgreSQL is connected to again", within: .seconds(60)) { try await isServed() }
        try await relay.untilCoordination(isAvailable: true)

        // A file that cannot be read leaves the password that the relay began with.
        try FileManager.default.removeItem(atPath: storage)
        try await Loopback.blocking { try postgres.changePassword(of: "keeper", to: "one") }
        try await eventually("PostgreSQL is connected to again", within: .seconds(60)) { try await isServed() }
        #expect(!relay.log().contains("keeper:"), "no password in the log")
        #expect(await relay.terminate() == .code(0))
      }
    }
  }
}
