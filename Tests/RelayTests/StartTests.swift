import ChildProcesses
import Foundation
import TestSupport
import TestTags
import Testing

/// Relays that are there before their store.
@Suite(.tags(.processes)) struct StartTests {
  /// Runs `body` with a relay that was started while its PostgreSQL did not run.
  private static func withoutStore(
    _ settings: [String: String] = [:], _ body: (PostgresServer, RelayProcess) async throws -> Void
  ) async throws {
    let postgres = try await Loopback.blocking { try PostgresServer() }
    let database = try await Loopback.blocking {
      let database = try postgres.createDatabase()
      try postgres.stop()
      return database
    }
    try await RelayOperator.with(settings: ["RELAY_STORAGE_MIGRATE": "true"].merging(settings) { $1 }) { site in
      let relay = try await site.startServing(["RELAY_STORAGE_URL": database])
      do {
        try await body(postgres, relay)
      } catch {
        await relay.kill9()
        throw TestFailure("\(error): \(relay.log().suffix(2000))")
      }
    }
  }

  @Test func `a relay waits for its store, says so, is not ready meanwhile, and serves as soon as it answers`()
    async throws
  {
    try await Self.withoutStore { postgres, relay in
      let (status, body) = try await eventually("it waits") {
        await relay.readyz().flatMap { $0.body.contains("waiting") ? $0 : nil }
      }
      #expect(status == 503)
      #expect(body.contains(#""start":"waiting for the store: "#) && body.contains("refused"), "\(body)")
      #expect(try await relay.ask("/livez").status == 200)
      #expect(try await relay.ask("/metrics").status == 200)

      try await Loopback.blocking { try postgres.start() }
      guard case .ready = try await relay.readiness(within: .seconds(60)) else { throw TestFailure("it has ended") }
      let sender = try await relay.register()
      #expect(sender.number.hasPrefix("+"))
      let lines = relay.log().split(separator: "\n")
      #expect(lines.count { $0.contains("the store answers") } == 1, "\(relay.log())")
      // The reasons may differ while it starts, and none is told twice in a row.
      #expect((1...3).contains(lines.count { $0.contains("waiting for the store") }), "\(relay.log())")
      #expect(await relay.terminate() == .code(0))
    }
  }

  @Test func `a store that does not come ends the relay after its time, and not before`() async throws {
    let started = ContinuousClock.now
    try await Self.withoutStore(["RELAY_STORAGE_START_SECONDS": "2"]) { _, relay in
      #expect(await relay.exit() == .code(1))
      #expect(ContinuousClock.now - started > .seconds(2))
      #expect(relay.log().contains("Error: The store does not answer: "), "\(relay.log())")
    }
  }

  @Test func `a relay that waits for its store stops when it is told to`() async throws {
    try await Self.withoutStore { _, relay in
      try await eventually("it waits") { relay.log().contains("waiting for the store") }
      #expect(await relay.terminate() == .code(0), "\(relay.log())")
    }
  }
}
