// Work on the schema: a connection of its own, made for the purpose, so that no call waits behind it.

import Logging
import RelayCore

/// Runs schema work of one process at a time.
struct PostgresMaintenance: Sendable {
  let target: PostgresTarget
  let reactor: Reactor
  let logger: Logger
  let primary: PostgresPrimary

  /// Any number, the same in every relay: the lock that schema work of all processes takes turns by.
  private static let lockKey: Int64 = 0x5265_6C61_7953_6368

  /// Calls `body` on a fresh connection that holds the lock for schema work, and ends the connection.
  ///
  /// - Parameter limit: for each statement.
  /// - Throws: `.unavailable` also when another process held the lock for `lockWait`.
  func run<Value: Sendable>(
    limit: Duration = .seconds(600), _ body: @Sendable (PostgresConnection) async throws(StoreError) -> Value
  ) async throws(StoreError) -> Value {
    let settings = PostgresConnection.Settings(
      purpose: "maintenance", statementTimeout: limit, lockTimeout: Self.lockWait, deadline: limit + .seconds(20),
      reconnects: false, plansByKey: false)
    let connection = PostgresConnection(
      target: target, settings: settings, reactor: reactor, logger: logger, primary: primary)
    do throws(StoreError) {
      // A lock of the session: it ends with the connection, however that ends.
      try await connection.run("SELECT pg_advisory_lock(\(Self.lockKey))")
      // From here on a lock is one that the relay's own calls wait behind.
      try await connection.run("SELECT set_config('lock_timeout', '\(Self.tableLockMillis)', false)")
      let value = try await body(connection)
      await connection.close()
      return value
    } catch {
      await connection.close()
      throw error
    }
  }

  private static let lockWait: Duration = .seconds(60)
  private static let tableLockMillis = 2000
}

extension PostgresConnection {
  /// Runs `statements`, made at run time, as one transaction.
  @discardableResult
  func run(_ statements: String...) async throws(StoreError) -> PostgresResult? { try await run(statements) }

  /// - Returns: the last statement's result.
  @discardableResult
  func run(_ statements: [String]) async throws(StoreError) -> PostgresResult? {
    do throws(PostgresError) {
      return try await transaction(statements.map { PostgresStep(.once($0)) }).last
    } catch {
      throw error.storeError
    }
  }
}
