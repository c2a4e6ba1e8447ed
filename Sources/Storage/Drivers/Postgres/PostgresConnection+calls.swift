// The calls of one connection.

import RelayCore

extension PostgresConnection {
  /// Reads: may run twice, sees what is committed, and shares a transaction with its neighbours.
  func read(_ name: StaticString, _ query: PostgresQuery) async throws(PostgresError) -> PostgresResult {
    try await read(PostgresStep(name, query))
  }

  func read(_ step: PostgresStep) async throws(PostgresError) -> PostgresResult {
    try Self.only(try await reads([step]))
  }

  /// Reads all of `steps` from one connection, one after the other; each sees what is committed by then.
  func reads(_ steps: [PostgresStep]) async throws(PostgresError) -> [PostgresResult] {
    try await submit(steps, sharing: .reads).get()
  }

  /// Runs one statement that waits for no lock, in one transaction with others of its kind; durable on return.
  func sharedWrite(_ name: StaticString, _ query: PostgresQuery) async throws(PostgresError) -> PostgresResult {
    try await sharedWrite(PostgresStep(name, query))
  }

  func sharedWrite(_ step: PostgresStep) async throws(PostgresError) -> PostgresResult {
    try Self.only(try await sharedWrites([step]))
  }

  /// Runs `steps` likewise: all of them are done, or none.
  /// - Returns: a result for each step.
  func sharedWrites(_ steps: [PostgresStep]) async throws(PostgresError) -> [PostgresResult] {
    guard !steps.isEmpty else { return [] }
    return try await submit(steps, sharing: .writes).get()
  }

  /// Runs one statement as a transaction of its own; durable on return.
  func write(_ name: StaticString, _ query: PostgresQuery) async throws(PostgresError) -> PostgresResult {
    try await write(PostgresStep(name, query))
  }

  func write(_ step: PostgresStep) async throws(PostgresError) -> PostgresResult {
    try Self.only(try await transaction([step]))
  }

  /// Runs `steps` in order as one transaction, in one round trip; durable on return.
  /// - Returns: a result for each step.
  func transaction(_ steps: [PostgresStep]) async throws(PostgresError) -> [PostgresResult] {
    guard !steps.isEmpty else { return [] }
    return try await submit(steps, sharing: .alone).get()
  }

  private static func only(_ results: [PostgresResult]) throws(PostgresError) -> PostgresResult {
    guard let result = results.first else { throw .notServed(reason: "PostgreSQL gave no result") }
    return result
  }
}
