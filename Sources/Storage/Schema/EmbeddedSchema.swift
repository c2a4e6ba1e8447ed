// Which steps of the schema a database has been through, and running those it has not.

import GRDB
package import RelayCore

extension EmbeddedStorage {
  package func migrations() async throws(StoreError) -> [MigrationStatus] {
    let applied = try await read { db in try Self.applied(in: db) }
    let known = EmbeddedMigration.all.map { step in
      let done = applied.first { $0.version == step.version }
      return MigrationStatus(
        version: step.version, name: step.name, applied: done?.at, usableFrom: done?.usableFrom ?? step.usableFrom)
    }
    let newer = applied.filter { $0.version > EmbeddedMigration.newest }
      .map { MigrationStatus(version: $0.version, name: $0.name, applied: $0.at, usableFrom: $0.usableFrom) }
    return known + newer
  }

  /// As one transaction. A new file is sealed in it, where there is an encryption key: nothing ever lies in it as it is, and
  /// no former build is at work on it.
  package func migrate(to newest: Int?, progress: @Sendable (MigrationStatus) -> Void) async throws(StoreError) {
    let version = newest ?? EmbeddedMigration.newest
    // Where there is nothing to do, nobody waits for the lock.
    guard try await read({ db in try !Self.pending(to: version, in: db).isEmpty }) else { return }
    let key = version == EmbeddedMigration.newest ? try TokenState.newKey(sealer) : nil
    let now = clock.now()
    let done = try await writeAtStart { db in
      try db.execute(sql: Self.historyTable)
      let isNew = try Self.applied(in: db).isEmpty
      // Another process may have been faster.
      let pending = try Self.pending(to: version, in: db)
      for step in pending { try db.run(step, at: now) }
      if isNew, let key {
        try db.store(key, as: TokenState.keyName)
        try db.takeSealedTokensAlone()
      }
      // With what sealing made of them.
      return try Self.applied(in: db).filter { done in pending.contains { $0.version == done.version } }
        .map { MigrationStatus(version: $0.version, name: $0.name, applied: $0.at, usableFrom: $0.usableFrom) }
    }
    knownTokens.forget()
    for step in done { progress(step) }
  }

  package func compatibility() async throws(StoreError) -> SchemaCompatibility {
    let applied = try await read { db in try Self.applied(in: db) }
    if applied.contains(where: { $0.version == SchemaMark.moved.rawValue }) { return .moved }
    let version = applied.map(\.version).max() ?? 0
    let newestKnown = EmbeddedMigration.newest
    guard version >= EmbeddedMigration.needed else {
      return .tooOld(version: version, needed: EmbeddedMigration.needed)
    }
    guard applied.allSatisfy({ $0.usableFrom <= newestKnown }) else {
      return .tooNew(version: version, newestKnown: newestKnown)
    }
    return .usable(version: version)
  }

  private struct Applied {
    let version: Int
    let name: String
    let at: Timestamp
    let usableFrom: Int
  }

  /// Ascending by version; empty in a new file.
  private static func applied(in db: Database) throws -> [Applied] {
    guard try db.tableExists("relay_migrations") else { return [] }
    return try db.rows("SELECT version, name, applied, usable_from FROM relay_migrations ORDER BY version").map {
      try Applied(
        version: Int($0.integer(0)), name: $0.text(1), at: $0.time(2), usableFrom: Int($0.integer(3)))
    }
  }

  private static func pending(to version: Int, in db: Database) throws -> [EmbeddedMigration] {
    let applied = try applied(in: db).map(\.version)
    return EmbeddedMigration.all.filter { $0.version <= version && !applied.contains($0.version) }
  }

  private static let historyTable = """
    CREATE TABLE IF NOT EXISTS relay_migrations (
      version INTEGER PRIMARY KEY,
      name TEXT NOT NULL,
      applied INTEGER NOT NULL,
      usable_from INTEGER NOT NULL
    ) STRICT
    """
}

extension Database {
  fileprivate func run(_ step: EmbeddedMigration, at now: Timestamp) throws {
    try execute(sql: step.sql)
    try run(
      "INSERT INTO relay_migrations (version, name, applied, usable_from) VALUES (?, ?, ?, ?)",
      [step.version, step.name, now.millis, step.usableFrom])
  }

  /// A number that rises with each change of a subject, by whatever process.
  enum Revision: String {
    case accounts, peers
    /// Of the feed of our listing: see `EmbeddedMigration.trustedFederation`.
    case listing
    case listingGeneration = "listing-generation"
    /// The last change of that feed that was forgotten.
    case listingPruned = "listing-pruned"
    /// Of the feed of the directory: the last change that was forgotten.
    case directoryPruned = "directory-pruned"
    /// How many contacts have passed from one peer to another.
    case contactPasses = "contact-passes"
    /// How many of them the operator was told of.
    case contactPassesTold = "contact-passes-told"
  }

  func revision(_ subject: Revision) throws -> Int64 {
    try Fields.valid(row("SELECT value FROM revisions WHERE subject = ?", [subject.rawValue])).integer(0)
  }
  func raise(_ subject: Revision) throws {
    try run("UPDATE revisions SET value = value + 1 WHERE subject = ?", [subject.rawValue])
  }
  func set(_ subject: Revision, to value: Int64) throws {
    try run("UPDATE revisions SET value = ? WHERE subject = ?", [value, subject.rawValue])
  }
}
