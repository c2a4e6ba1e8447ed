import ChildProcesses
import Foundation
import TestSupport
import TestTags
import Testing

/// `relay storage move`: an operator outgrows one process, and nothing that was accepted is lost on the way.
@Suite(.tags(.processes)) struct StorageMoveTests {
  @Test func `a store is moved under load, and served from PostgreSQL with all that was accepted`() async throws {
    try await RelayOperator.with("alpha", settings: Cluster.unlimited) { site in
      let postgres = try await Loopback.blocking { try PostgresServer.shared() }
      let database = try await Loopback.blocking { try postgres.createDatabase() }
      let file = site.folder + "/database-url"
      try (database + "\n").write(toFile: file, atomically: true, encoding: .utf8)
      let relay = try await site.serve()
      let (ann, bob) = (try await relay.register(), try await relay.register())
      try await relay.upload(Array(1...20), as: bob)
      #expect(try await draw(of: bob, as: ann, at: relay) == 1)

      // Messages arrive, and are removed, while it is copied.
      let (accepted, enough) = (Ledger<Int64>(), Ledger<Bool>())
      let load = Task {
        var time: Int64 = 1
        while enough.count == 0 {
          if try await send(relay, to: bob, as: ann, time) == 200 { accepted.add(time) }
          time += 1
        }
      }
      try await eventually("messages arrive") { accepted.count > 20 }
      let copied = try await site.run(["storage", "move", "--to-file", file])
      #expect(copied.exit == .code(0), "\(copied.errors)")
      #expect(copied.output.contains("A relay serves the embedded store: stop it"), "\(copied.output)")
      let before = accepted.count
      try await eventually("messages go on arriving") { accepted.count > before + 20 }
      enough.add(true)
      try await load.value
      #expect(try await draw(of: bob, as: ann, at: relay) == 2)
      try await expectNotServed(site, at: database, says: "A store is being moved into this one")
      #expect(await relay.terminate() == .code(0))

      let moved = try await site.run(["storage", "move", "--to-file", file])
      #expect(moved.exit == .code(0), "\(moved.errors)")
      #expect(moved.output.contains("Moved: both stores have the same rows"), "\(moved.output)")
      #expect(!moved.output.contains(bob.number.dropFirst()) && !moved.errors.contains("postgres://"))
      try await expectNotServed(site, at: nil, says: "This store was moved to PostgreSQL")
      for arguments in [["storage", "move", "--to-file", file], ["storage", "move", "--to-file", file, "--cancel"]] {
        let again = try await site.run(arguments)
        #expect(again.exit == .code(1) && again.errors.contains("The move has ended"), "\(again.errors)")
      }
      try await expectAll(of: accepted.all, for: bob, from: ann, site, database)
    }
  }

  private func expectAll(
    of times: [Int64], for bob: TestDevice, from ann: TestDevice, _ site: RelayOperator, _ database: String
  ) async throws {
    try await RedisServer.with { redis in
      let servers = ["RELAY_STORAGE_URL": database, "RELAY_COORDINATION_URL": redis.url]
      let relays = [try await site.serve(servers), try await site.serve(servers)]
      let found = try await emptied(bob, at: relays[0])
      #expect(found == times, "\(found.count) of \(times.count)")
      // Keys that were handed out stay so; a message that is sent again is known; new ones go behind the others.
      #expect(try await draw(of: bob, as: ann, at: relays[1]) == 3)
      #expect(try await send(relays[1], to: bob, as: ann, times[0]) == 200)
      #expect(try await send(relays[1], to: bob, as: ann, 1_000_000) == 200)
      #expect(try await relays[0].mailbox(of: bob).compactMap { $0["timestamp"] as? Int64 } == [1_000_000])
      #expect(try await site.relay("audit", overrides: servers).contains("storage move"))
      for relay in relays { await relay.terminate() }
    }
  }

  @Test func `a move that is killed again and again ends with all rows`() async throws {
    try await RelayOperator.with("alpha", settings: Cluster.unlimited) { site in
      let postgres = try await Loopback.blocking { try PostgresServer.shared() }
      let database = try await Loopback.blocking { try postgres.createDatabase() }
      let file = site.folder + "/database-url"
      try (database + "\n").write(toFile: file, atomically: true, encoding: .utf8)
      let relay = try await site.serve()
      let (ann, bob) = (try await relay.register(), try await relay.register())
      try await relay.upload(Array(1...20), as: bob)
      #expect(try await draw(of: bob, as: ann, at: relay) == 1)
      #expect(try await draw(of: bob, as: ann, at: relay) == 2)
      for time in Int64(1)...50 { #expect(try await send(relay, to: bob, as: ann, time) == 200) }
      await relay.kill9()

      var (kills, sent, exit) = (0, 4, ChildProcess.Exit.signal(SIGKILL))
      while exit != .code(0), kills < 20 {
        // Before the so-manieth call by which PostgreSQL is sent something.
        let wrapper = [
          "strace", "-f", "-qqq", "-o", "/dev/null", "-e", "trace=sendto", "-e",
          "inject=sendto:signal=KILL:when=\(sent)",
        ]
        let run = try await site.run(["storage", "move", "--to-file", file], wrapper: wrapper, within: .seconds(120))
        // The one before may have been killed behind the end of its move.
        exit = run.errors.contains("The move has ended") ? .code(0) : run.exit
        if exit != .code(0) { kills += 1 }
        sent = sent * 3 / 2
      }
      #expect(kills > 3 && exit == .code(0), "\(kills) kills, \(exit)")
      try await expectNotServed(site, at: nil, says: "This store was moved to PostgreSQL")
      try await expectAll(of: Array(1...50), for: bob, from: ann, site, database)
    }
  }

  @Test func `a store that cannot be moved is refused with the remedy, and an unfinished move is taken back`()
    async throws
  {
    try await RelayOperator.with("alpha", settings: Cluster.unlimited) { site in
      let postgres = try await Loopback.blocking { try PostgresServer.shared() }
      let database = try await Loopback.blocking { try postgres.createDatabase() }
      func move(_ arguments: String..., overrides: [String: String] = [:]) async throws -> CommandResult {
        try await site.run(["storage", "move"] + arguments, overrides: overrides)
      }
      #expect(try await move().exit == .code(64))
      #expect(try await move("--to", database).errors.contains("There is no store"))
      #expect(
        try await move("--to", database, overrides: ["RELAY_STORAGE_URL": database]).errors
          .contains("names no embedded store"))
      let relay = try await site.serve()
      let away = try await move("--to", "postgres://postgres:needle@127.0.0.1:1/none")
      #expect(away.exit == .code(1) && away.errors.contains("it goes on where it ended"), "\(away.errors)")
      #expect(!away.errors.contains("needle"))
      #expect(try await move("--to", database).exit == .code(0))
      #expect(try await move("--to", database, "--cancel").exit == .code(0))
      #expect(await relay.terminate() == .code(0))
      #expect(await (try site.serve()).terminate() == .code(0))
    }
  }

  private func expectNotServed(_ site: RelayOperator, at database: String?, says words: String) async throws {
    let overrides = database.map { ["RELAY_STORAGE_URL": $0] } ?? [:]
    for command in [["serve"], ["peer", "list"], ["migrate", "run"]] {
      let result = try await site.run(command, overrides: overrides)
      #expect(result.exit == .code(1) && result.errors.contains(words), "\(command): \(result.errors)")
    }
  }

  private func send(_ relay: RelayProcess, to bob: TestDevice, as ann: TestDevice, _ time: Int64) async throws -> Int {
    try await relay.send(
      "PUT", "/v1/messages/\(bob.number)", json: bundle(message(), timestamp: time), as: ann
    ).status
  }

  /// Reads and removes all that waits for `device`. - Returns: the times of the messages, in order.
  private func emptied(_ device: TestDevice, at relay: RelayProcess) async throws -> [Int64] {
    var times: [Int64] = []
    while true {
      let page = try await relay.mailbox(of: device)
      if page.isEmpty { return times }
      for message in page {
        let (source, time) = (message["source"] as? String ?? "", message["timestamp"] as? Int64 ?? 0)
        times.append(time)
        #expect(try await relay.send("DELETE", "/v1/messages/\(source)/\(time)", as: device).status == 200)
      }
    }
  }

  private func draw(of bob: TestDevice, as ann: TestDevice, at relay: RelayProcess) async throws -> Int? {
    try await relay.send("GET", "/v1/keys/\(bob.number)/1", as: ann).list("keys").first?["keyId"] as? Int
  }
}
