// The shared connection: whose answer is whose, and what a neighbour's error does.

import Glibc
import Logging
import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Storage

@Suite(.tags(.stores)) struct PostgresConnectionTests {
  @Test func `a failed read leaves its neighbours their answers`() async throws {
    try await withConnection { connection in
      let outcomes = await withTaskGroup(of: (Int64, Result<Int64, PostgresError>).self) { group in
        // A zero fails; all of a burst share a transaction.
        for divisor in Int64(0)..<64 {
          group.addTask { (divisor, await Self.quotient(100 * divisor, divisor, over: connection)) }
        }
        return await group.reduce(into: [:]) { $0[$1.0] = $1.1 }
      }
      for (divisor, outcome) in outcomes {
        switch outcome {
        case .success(let value): #expect(divisor != 0 && value == 100)
        case .failure(.refused(let state, let statement)):
          #expect(divisor == 0 && state.code == "22012" && statement == "quotient")
        case .failure(let error): Issue.record(error)
        }
      }
    }
  }

  @Test func `a failed shared write undoes itself alone`() async throws {
    try await withConnection { connection in
      _ = try await connection.run("CREATE TABLE numbers (value bigint PRIMARY KEY CHECK (value <> 7))")
      let failed = Collected<Int64>()
      await withTaskGroup { group in
        for value in Int64(0)..<64 {
          group.addTask {
            do {
              _ = try await connection.sharedWrite("number", "INSERT INTO numbers (value) VALUES (\(value))")
            } catch {
              failed.add(value)
            }
          }
        }
      }
      #expect(failed.values == [7])
      let result = try await connection.read("stored_numbers", "SELECT value FROM numbers ORDER BY value")
      let stored = try result.rows.map { index in
        var row = result.cursor(row: index)
        return try row.bigint()
      }
      #expect(stored == (0..<64).filter { $0 != 7 })
    }
  }

  @Test func `a transaction is done wholly or not at all`() async throws {
    try await withConnection { connection in
      _ = try await connection.run("CREATE TABLE numbers (value bigint PRIMARY KEY)")
      await #expect(throws: StoreError.self) {
        try await connection.run("INSERT INTO numbers VALUES (1)", "INSERT INTO numbers VALUES (1)")
      }
      let results = try await connection.transaction(
        ["INSERT INTO numbers VALUES (2)", "INSERT INTO numbers VALUES (3), (4)"].map { PostgresStep(.once($0)) })
      #expect(results.map(\.affectedRows) == [1, 2])
      #expect(try await connection.read("all_numbers", "SELECT value FROM numbers").rowCount == 3)
    }
  }

  /// An answer to the statement is not yet success: a deferred rule speaks at the commit.
  @Test func `a failed commit fails the transaction`() async throws {
    try await withConnection { connection in
      _ = try await connection.run("CREATE TABLE numbers (value bigint UNIQUE DEFERRABLE INITIALLY DEFERRED)")
      let insert = PostgresStep(.once("INSERT INTO numbers VALUES (1), (1)"))
      for _ in 0..<2 {
        let error = await #expect(throws: PostgresError.self) { try await connection.transaction([insert]) }
        guard case .refused(let state, _)? = error else { throw TestFailure("\(String(describing: error))") }
        #expect(state.code == "23505")
      }
      #expect(try await connection.read("all_numbers", "SELECT value FROM numbers").rowCount == 0)
      _ = try await connection.run("INSERT INTO numbers VALUES (1)")
    }
  }

  /// Sent again from within an answer's arrival, it is more than the socket takes at once.
  @Test func `a large transaction that is sent again is sent whole`() async throws {
    try await withConnection { connection in
      _ = try await connection.run("CREATE SEQUENCE attempts")
      _ = try await connection.run(
        """
        CREATE FUNCTION conflict_once() RETURNS void LANGUAGE plpgsql AS $$
        BEGIN
          IF nextval('attempts') = 1 THEN RAISE SQLSTATE '40001'; END IF;
        END $$
        """)
      let results = try await connection.transaction([
        PostgresStep(.once("SELECT conflict_once()")),
        PostgresStep(once: "SELECT length(\([UInt8](repeating: 7, count: 32 << 20)))"),
      ])
      var row = try #require(results.last).cursor(row: 0)
      #expect(try row.integer() == 32 << 20)
    }
  }

  @Test func `a statement past its deadline ends the connection, and another one is made`() async throws {
    try await withConnection(deadline: .milliseconds(500)) { connection in
      // Whichever comes first, the other waits behind it and fails with it.
      await withTaskGroup(of: Void.self) { group in
        for _ in 0..<2 {
          group.addTask {
            do throws(PostgresError) {
              _ = try await connection.read("sleep", "SELECT pg_sleep(60)")
              Issue.record("it slept for a minute")
            } catch {}
          }
        }
      }
      try await eventually("it is connected again") { (try? await connection.read("one", "SELECT 1")) != nil }
    }
  }

  /// As after a failover: whoever takes writes now is looked for.
  @Test func `a server that became read-only is left`() async throws {
    try await withConnection { connection in
      _ = try await connection.run("CREATE TABLE numbers (value bigint)")
      _ = try await connection.run("SET default_transaction_read_only = on")
      await #expect(throws: StoreError.self) { try await connection.run("INSERT INTO numbers VALUES (1)") }
      try await eventually("it is connected again") {
        (try? await connection.run("INSERT INTO numbers VALUES (2)")) != nil
      }
    }
  }

  @Test func `a server that accepts and then is silent is given up`() async throws {
    let (listener, port) = try Loopback.listen()
    defer { close(listener) }
    let reactor = try Reactor(name: "test")
    let target = try PostgresTarget(url: "postgres://relay@127.0.0.1:\(port)/none")
    let connection = PostgresConnection(
      target: target, settings: .init(purpose: "test"), reactor: reactor, logger: .quiet)
    let asked = ContinuousClock.now
    await #expect(throws: PostgresError.self) { try await connection.read("one", "SELECT 1") }
    // Five seconds, and what a busy machine makes of them.
    #expect(ContinuousClock.now - asked < MachineSpeed.allow(.seconds(30)))
    await connection.close()
    await reactor.stop()
  }

  @Test func `an error never carries a value`() async throws {
    try await withConnection { connection in
      let error = await #expect(throws: PostgresError.self) {
        try await connection.read("cast", "SELECT \("secret")::bigint")
      }
      #expect(error.map { !"\($0) \($0.storeError)".contains("secret") } == true)
    }
  }

  @Test func `every kind of value arrives as it was sent`() async throws {
    try await withConnection { connection in
      let fingerprint = Fingerprint(high: 0x0102_0304_0506_0708, low: .max)
      let blobs = PostgresParameter(each: [[0, 255], nil] as [[UInt8]?])
      let result = try await connection.read(
        "values",
        """
        SELECT \(Int64.min), \(Int32.max), \(true), \("grün\n"), \([UInt8]()), \([UInt8]?.none),
          (\(each: [1, -2] as [Int64]))[2], (\(blobs))[1], (\(blobs))[2] IS NULL, (\(each: [fingerprint]))[1],
          cardinality(\(each: [String]())), \(PostgresDate(-1)), \(opaque: "a\0b"), \(Int16.min)
        """)
      var row = result.cursor(row: 0)
      #expect(try row.bigint() == .min)
      #expect(try row.integer() == .max)
      #expect(try row.boolean())
      #expect(try row.text() == "grün\n")
      #expect(try row.bytes() == [])
      #expect(row.optionalBytes() == nil)
      #expect(try row.bigint() == -2)
      #expect(try row.bytes() == [0, 255])
      #expect(try row.boolean())
      #expect(try row.fingerprint() == fingerprint)
      #expect(try row.integer() == 0)
      #expect(try row.date() == -1)
      #expect(try row.opaque() == "a\0b")
      #expect(try row.smallint() == .min)
      #expect(throws: StoreError.self) { try row.integer() }
    }
  }

  private static func quotient(
    _ dividend: Int64, _ divisor: Int64, over connection: PostgresConnection
  ) async -> Result<Int64, PostgresError> {
    do throws(PostgresError) {
      let result = try await connection.read(
        "quotient", "SELECT \(dividend) / \(divisor)")
      var row = result.cursor(row: 0)
      return .success((try? row.bigint()) ?? -1)  // Any other value fails the test.
    } catch {
      return .failure(error)
    }
  }

  /// Runs `body` with a connection to an empty database.
  private func withConnection(
    deadline: Duration = .seconds(10), _ body: (PostgresConnection) async throws -> Void
  ) async throws {
    await Turns.postgres.take()
    defer { Turns.postgres.giveBack() }
    let server = try await Loopback.blocking { try PostgresServer.shared() }
    let target = try PostgresTarget(url: await Loopback.blocking { try server.createDatabase() })
    let reactor = try Reactor(name: "test")
    var settings = PostgresConnection.Settings(purpose: "test")
    settings.deadline = deadline
    let connection = PostgresConnection(target: target, settings: settings, reactor: reactor, logger: .quiet)
    do {
      try await connection.untilConnected()
      try await body(connection)
    } catch {
      await connection.close()
      await reactor.stop()
      throw error
    }
    await connection.close()
    await reactor.stop()
  }
}
