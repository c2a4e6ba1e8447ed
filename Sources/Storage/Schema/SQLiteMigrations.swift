import GRDB
package import RelayCore

extension SQLiteStorage {
  package func migrations() async throws(StoreError) -> [MigrationStatus] {
    steps.statuses(try await read { db in try db.appliedSteps() })
  }

  package func compatibility() async throws(StoreError) -> SchemaCompatibility {
    steps.compatibility(try await read { db in try db.appliedSteps() }, [.moved: .moved])
  }

  /// As one transaction. A new file is sealed in it, where there is an encryption key: nothing ever lies in it as it
  /// is.
  package func migrate(to newest: Int?, progress: @Sendable (MigrationStatus) -> Void) async throws(StoreError) {
    let steps = steps
    // If there is nothing to do, no process waits for the lock.
    guard try await read({ db in try !steps.pending(db.appliedSteps(), to: newest).isEmpty }) else { return }
    let key = newest ?? steps.newest == steps.newest ? try TokenState.newKey(sealer) : nil
    let now = clock.now()
    let done = try await writeAtStart { db in
      try db.execute(sql: Self.historyTable)
      // Another process may have been faster.
      let applied = try db.appliedSteps()
      let pending = steps.pending(applied, to: newest)
      for step in pending { try db.run(step, at: now) }
      if applied.isEmpty, let key {
        try db.store(key, as: TokenState.keyName)
        try db.takeSealedTokensAlone()
      }
      return pending.map {
        AppliedStep(version: $0.version, name: $0.name, at: now, usableFrom: $0.usableFrom).status
      }
    }
    knownTokens.forget()
    for step in done { progress(step) }
  }

  private static let historyTable = """
    CREATE TABLE IF NOT EXISTS relay_schema (
      version INTEGER PRIMARY KEY,
      name TEXT NOT NULL,
      applied INTEGER NOT NULL,
      usable_from INTEGER NOT NULL
    ) STRICT
    """
}

extension Database {
  /// Ascending by version; empty in a new file.
  fileprivate func appliedSteps() throws -> [AppliedStep] {
    guard try tableExists("relay_schema") else { return [] }
    return try rows("SELECT version, name, applied, usable_from FROM relay_schema ORDER BY version")
      .map(AppliedStep.init(row:))
  }

  fileprivate func run(_ step: SchemaStep, at now: Timestamp) throws {
    for statements in step.statements { try execute(sql: statements) }
    try run(
      """
      INSERT INTO relay_schema (version, name, applied, usable_from)
      VALUES (\(step.version), \(step.name), \(now), \(step.usableFrom))
      """)
  }
}

extension AppliedStep {
  fileprivate init(row: Fields) throws(StoreError) {
    self.init(
      version: Int(try row.integer(0)), name: try row.text(1), at: try row.time(2), usableFrom: Int(try row.integer(3)))
  }
}
