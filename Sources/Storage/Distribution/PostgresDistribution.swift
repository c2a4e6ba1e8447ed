// From one PostgreSQL to a coordinator with workers (`relay storage distribute`). A mark in the list of the store's
// steps keeps every relay away while some tables are distributed and others are not. Each step is a transaction, and
// what is left to do is read from the cluster before each: so the work resumes wherever it ended.

import RelayCore
import RelayWork

extension PostgresStorage {
  /// Distributes the store, as far as that is left to do.
  /// - Parameters:
  ///   - shards: of a store that has none yet.
  ///   - progress: told before each step, and every some seconds while it lasts.
  /// - Returns: how the store lies now.
  package func distribute(
    shards: Int, progress: @escaping @Sendable (DistributionProgress) -> Void
  ) async throws(DistributionFailure) -> PostgresPlacement {
    let outcome: Result<PostgresPlacement, DistributionFailure>
    do throws(StoreError) {
      outcome = try await maintenance.run(limit: Self.statementMax) { connection throws(StoreError) in
        do throws(DistributionFailure) {
          let work = Distribution(store: self, connection: connection, shards: shards, progress: progress)
          return .success(try await work.run())
        } catch {
          return .failure(error)
        }
      }
    } catch {
      throw .store(error)
    }
    return try outcome.get()
  }
}

/// How far a distribution is.
package enum DistributionProgress: Sendable, Equatable {
  case began(DistributionStep)
  /// The workers have about `bytes` of a table's bytes.
  case copied(table: String, bytes: Int64, of: Int64)
}

/// One run of it, over a connection that holds the lock for schema work.
private struct Distribution {
  let store: PostgresStorage
  let connection: PostgresConnection
  let shards: Int
  let progress: @Sendable (DistributionProgress) -> Void

  func run() async throws(DistributionFailure) -> PostgresPlacement {
    try await takeMarkBack()
    var placement = try await look()
    if placement.steps(shards: shards).isEmpty {
      guard try await isMarked() else { return placement }
    }
    if placement.steps(shards: shards).first == .createExtension {
      try await perform(.createExtension)
      placement = try await look()
    }
    try await keepOthersOff(placement)
    // A lock that is waited for is another client's, and none of a relay: those are off.
    try await run("SELECT set_config('lock_timeout', '30000', false)")
    do throws(DistributionFailure) {
      while let step = placement.steps(shards: shards).first {
        guard !Task.isCancelled else { throw .store(.unavailable(reason: "the caller gave up")) }
        try await perform(step)
        placement = try await look()
      }
    } catch {
      // The caller is told of the step that failed, not of a mark that stays.
      try? await takeMarkBack()
      throw error
    }
    try await unmark()
    return placement
  }

  /// Lets relays serve as before, where nothing is divided yet.
  private func takeMarkBack() async throws(DistributionFailure) {
    let found = try await read()
    guard !found.tables.isEmpty, !found.isBegun, try await isMarked() else { return }
    try await unmark()
  }

  /// - Throws: what stands in the way.
  private func look() async throws(DistributionFailure) -> PostgresPlacement {
    let placement = try await read()
    if let obstacle = placement.obstacle { throw obstacle }
    return placement
  }

  private func read() async throws(DistributionFailure) -> PostgresPlacement {
    do throws(StoreError) {
      return try await PostgresPlacement.read { [connection] steps throws(StoreError) in
        do throws(PostgresError) { return try await connection.reads(steps) } catch { throw error.storeError }
      }
    } catch {
      throw .store(error)
    }
  }

  // MARK: Steps

  private func perform(_ step: DistributionStep) async throws(DistributionFailure) {
    progress(.began(step))
    switch step {
    case .createExtension: try await run("CREATE EXTENSION IF NOT EXISTS citus")
    case .distribute(let table, let bytes, let place):
      let watching = Task { await watch(table, bytes) }
      defer { watching.cancel() }
      try await run(DistributedTables.division(of: table, place))
    case .empty(let table): try await run(DistributedTables.emptying(table))
    }
  }

  @discardableResult
  private func run(_ sql: String) async throws(DistributionFailure) -> PostgresResult? {
    do throws(PostgresError) {
      return try await connection.transaction([PostgresStep(.once(sql))]).last
    } catch {
      throw DistributionFailure(error)
    }
  }

  /// Says how much more the workers hold than at the beginning, until it is cancelled.
  private func watch(_ table: String, _ total: Int64) async {
    guard let start = await workersBytes() else { return }
    while await Pause.for(Self.watchInterval) {
      guard let now = await workersBytes() else { continue }
      progress(.copied(table: table, bytes: min(max(0, now - start), total), of: total))
    }
  }

  /// The bytes of their whole databases: tables that are not committed yet cannot be asked for.
  private func workersBytes() async -> Int64? {
    let question = PostgresStep(
      once: """
        SELECT sum(result::bigint)::bigint
        FROM run_command_on_workers('SELECT pg_database_size(current_database())') WHERE success
        """)
    // Without an answer nothing is said.
    guard let found = try? await store.readBulk(question), found.rowCount == 1 else { return nil }
    var row = found.cursor(row: 0)
    return try? row.optionalBigint()
  }

  // MARK: What it needs

  /// Keeps relays from starting, once none is there.
  private func keepOthersOff(_ placement: PostgresPlacement) async throws(DistributionFailure) {
    // Before anything is written: a relay that starts again beside others is not kept from it.
    var others = try await others()
    if others == 0 {
      // A process that starts from now on finds the mark, and one that was faster is seen next.
      try await mark()
      others = try await self.others()
    }
    guard others > 0 else { return }
    if !placement.isBegun { try await unmark() }
    throw .inUse(connections: others)
  }

  private func others() async throws(DistributionFailure) -> Int {
    do throws(StoreError) { return try await store.lastingConnections(than: connection) } catch { throw .store(error) }
  }

  // MARK: The mark

  private static let version = Int32(SchemaMark.distributing.rawValue)

  private func isMarked() async throws(DistributionFailure) -> Bool {
    let found = try await run("SELECT FROM relay_schema WHERE version = \(Self.version)")
    return found?.rowCount == 1
  }

  private func mark() async throws(DistributionFailure) {
    try await run(
      """
      INSERT INTO relay_schema (version, name, applied, usable_from)
      VALUES (\(Self.version), '\(SchemaMark.distributing.name)', floor(extract(epoch FROM now()) * 1000)::bigint,
        \(Self.version))
      ON CONFLICT (version) DO NOTHING
      """)
  }

  private func unmark() async throws(DistributionFailure) {
    try await run("DELETE FROM relay_schema WHERE version = \(Self.version)")
  }

  private static let watchInterval = Duration.seconds(10)
}

extension DistributionFailure {
  fileprivate init(_ error: PostgresError) {
    switch error {
    case .refused(let state, _) where state.code == "42501": self = .forbidden
    case .refused(let state, _) where state.code == "53200": self = .tooFewLocks
    case .refused(let state, _) where state.code.hasPrefix("08") || state.code.hasPrefix("28"): self = .unreachable
    case .refused, .notServed: self = .store(error.storeError)
    }
  }
}
