package import RelayCore

extension PostgresStorage {
  package func migrations() async throws(StoreError) -> [MigrationStatus] {
    let applied = try await appliedMigrations()
    let known = PostgresMigration.all.map { step in
      let done = applied.first { $0.version == step.version }
      return MigrationStatus(
        version: step.version, name: step.name, applied: done?.at,
        usableFrom: done?.oldestCompatible ?? step.oldestCompatible)
    }
    let newer = applied.filter { $0.version > PostgresMigration.newest }
    return known
      + newer.map {
        MigrationStatus(version: $0.version, name: $0.name, applied: $0.at, usableFrom: $0.oldestCompatible)
      }
  }

  package func migrate(to newest: Int?, progress: @Sendable (MigrationStatus) -> Void) async throws(StoreError) {
    try await maintenance.run { connection throws(StoreError) in
      try await connection.run(Self.historyTable)
      let read = { (statement: PostgresStatement) async throws(PostgresError) in try await connection.write(statement) }
      let applied = try await Self.appliedMigrations(over: read)
      let pending = PostgresMigration.all.filter { step in
        step.version <= newest ?? .max && !applied.contains { $0.version == step.version }
      }
      // A new store is made at once: one that was begun would not be told from one that former builds work on, which is not
      // sealed here. In a store that is there already steps go one by one, since relays wait for what they lock.
      let isNew = applied.isEmpty
      let sealing = isNew ? try sealingOfNewStore() : []
      for steps in isNew ? [pending] : pending.map({ [$0] }) {
        try await connection.perform(steps.flatMap(Self.statements) + sealing)
        let done = try await Self.appliedMigrations(over: read)
        for step in steps {
          // With what sealing made of it.
          let done = done.first { $0.version == step.version }
          progress(
            MigrationStatus(
              version: step.version, name: step.name, applied: done?.at,
              usableFrom: done?.oldestCompatible ?? step.oldestCompatible))
        }
      }
      if isNew { knownTokens.forget() }
      try await PostgresPartitions.createMissing(over: connection)
    }
  }

  package func compatibility() async throws(StoreError) -> SchemaCompatibility {
    let applied = try await appliedMigrations()
    if applied.contains(where: { $0.version == SchemaMark.moving.rawValue }) { return .movingIn }
    let version = applied.map(\.version).max() ?? 0
    guard version >= PostgresMigration.needed else {
      return .tooOld(version: version, needed: PostgresMigration.needed)
    }
    guard applied.allSatisfy({ $0.oldestCompatible <= PostgresMigration.newest }) else {
      return .tooNew(version: version, newestKnown: PostgresMigration.newest)
    }
    return .usable(version: version)
  }

  private struct Applied {
    let version: Int
    let name: String
    let at: Timestamp
    let oldestCompatible: Int
  }

  private static let historyTable = """
    CREATE TABLE IF NOT EXISTS relay_schema (
      version integer NOT NULL,
      name text NOT NULL,
      applied bigint NOT NULL,
      oldest_compatible integer NOT NULL,
      PRIMARY KEY (version)
    )
    """

  /// With the record of it.
  private static func statements(of step: PostgresMigration) -> [PostgresStep] {
    (step.statements + [record(step)]).map { PostgresStep(.once($0)) }
  }

  /// The names are our own: they need no quoting but SQL's.
  private static func record(_ step: PostgresMigration) -> String {
    """
    INSERT INTO relay_schema (version, name, applied, oldest_compatible)
    VALUES (\(step.version), '\(step.name)', \(nowMillis), \(step.oldestCompatible))
    """
  }

  private static let nowMillis = "floor(extract(epoch FROM now()) * 1000)::bigint"

  private func appliedMigrations() async throws(StoreError) -> [Applied] {
    try await Self.appliedMigrations { statement throws(PostgresError) in try await reads.read(statement) }
  }

  /// Ascending by version; empty in a new database.
  private static func appliedMigrations(
    over query: (PostgresStatement) async throws(PostgresError) -> PostgresResult
  ) async throws(StoreError) -> [Applied] {
    let result: PostgresResult
    do throws(PostgresError) {
      result = try await query(
        .once("SELECT version, name, applied, oldest_compatible FROM relay_schema ORDER BY version"))
    } catch .refused(.undefinedTable, _) {
      return []
    } catch {
      throw error.storeError
    }
    var applied: [Applied] = []
    for index in result.rows {
      var row = result.cursor(row: index)
      applied.append(
        Applied(
          version: Int(try row.integer()), name: try row.text(), at: try row.timestamp(),
          oldestCompatible: Int(try row.integer())))
    }
    return applied
  }
}
