package import RelayCore

extension PostgresStorage {
  package func migrations() async throws(StoreError) -> [MigrationStatus] {
    steps.statuses(try await appliedSteps())
  }

  package func compatibility() async throws(StoreError) -> SchemaCompatibility {
    steps.compatibility(try await appliedSteps(), [.moving: .movingIn, .distributing: .distributing])
  }

  package func migrate(to newest: Int?, progress: @Sendable (MigrationStatus) -> Void) async throws(StoreError) {
    try await maintenance.run { connection throws(StoreError) in
      try await connection.demandNoWorker()
      try await connection.run(Self.historyTable)
      let read = { (step: PostgresStep) async throws(PostgresError) in try await connection.transaction([step]) }
      let applied = try await Self.appliedSteps(over: read)
      let pending = steps.pending(applied, to: newest)
      // A new store is made at once, and sealed with it: nothing ever lies in it as it is. In a store that is there
      // already steps go one by one, since relays wait for the tables that a step locks.
      let isNew = applied.isEmpty
      let sealing = isNew ? try sealingOfNewStore() : []
      for group in isNew ? [pending] : pending.map({ [$0] }) {
        try await connection.perform(group.flatMap(Self.statements) + sealing)
        let done = try await Self.appliedSteps(over: read)
        for step in done where group.contains(where: { $0.version == step.version }) { progress(step.status) }
      }
      if isNew { knownTokens.forget() }
      try await PostgresPartitions.createMissing(over: connection)
    }
  }

  private static let historyTable = """
    CREATE TABLE IF NOT EXISTS relay_schema (
      version integer NOT NULL,
      name text NOT NULL,
      applied bigint NOT NULL,
      usable_from integer NOT NULL,
      PRIMARY KEY (version)
    )
    """

  /// With the record of it.
  private static func statements(of step: SchemaStep) -> [PostgresStep] {
    step.statements.map { PostgresStep(.once($0)) } + [
      PostgresStep(
        "record_step",
        """
        INSERT INTO relay_schema (version, name, applied, usable_from)
        VALUES (\(Int32(step.version)), \(step.name), floor(extract(epoch FROM now()) * 1000)::bigint,
          \(Int32(step.usableFrom)))
        """)
    ]
  }

  private func appliedSteps() async throws(StoreError) -> [AppliedStep] {
    try await Self.appliedSteps { step throws(PostgresError) in try await reads.reads([step]) }
  }

  /// Ascending by version; empty in a new database.
  private static func appliedSteps(
    over query: (PostgresStep) async throws(PostgresError) -> [PostgresResult]
  ) async throws(StoreError) -> [AppliedStep] {
    let results: [PostgresResult]
    do throws(PostgresError) {
      results = try await query(
        PostgresStep(.once("SELECT version, name, applied, usable_from FROM relay_schema ORDER BY version")))
    } catch .refused(.undefinedTable, _) {
      return []
    } catch {
      throw error.storeError
    }
    return try results.first?.all(AppliedStep.init(row:)) ?? []
  }
}

extension AppliedStep {
  fileprivate init(row: inout PostgresRow) throws(StoreError) {
    self.init(
      version: Int(try row.integer()), name: try row.text(), at: try row.timestamp(), usableFrom: Int(try row.integer())
    )
  }
}
