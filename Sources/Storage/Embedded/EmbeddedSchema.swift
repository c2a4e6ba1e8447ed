// The schema of the embedded database and the steps that made it. Steps only go forward; a step that was ever
// released never changes.

import GRDB
package import RelayCore

/// One step of the schema.
struct EmbeddedMigration: Sendable {
  let version: Int
  let name: String
  /// The oldest build, by the newest step it knows, that can still work after this step: its own version when it
  /// takes something away, an earlier one when it only adds.
  let usableFrom: Int
  let sql: String

  /// Ascending, without gaps, from 1.
  static let all: [EmbeddedMigration] = [
    EmbeddedMigration(version: 1, name: "accounts, keys, messages, directory, peers", usableFrom: 1, sql: initial)
  ]
  static var newest: Int { all.last?.version ?? 0 }
  /// The oldest schema this build can work on.
  static let needed = 1

  // The account number comes first in every key; messages alone are keyed by their sequence, whose AUTOINCREMENT
  // keeps it rising past removed rows, and found through indexes that begin with the number. A text that a client made up is a BLOB: it may hold any
  // Unicode text, and SQLite's TEXT ends at a NUL.
  private static let initial = """
    CREATE TABLE accounts (
      number INTEGER PRIMARY KEY,
      token BLOB NOT NULL,
      active INTEGER NOT NULL,
      supports_sms INTEGER NOT NULL,
      voice INTEGER NOT NULL,
      identity_key BLOB
    ) STRICT;
    CREATE INDEX accounts_by_token ON accounts (token, active, supports_sms, voice);

    CREATE TABLE verification_codes (
      account INTEGER PRIMARY KEY,
      code BLOB NOT NULL,
      expires INTEGER NOT NULL,
      tries INTEGER NOT NULL
    ) STRICT;

    CREATE TABLE devices (
      account INTEGER NOT NULL REFERENCES accounts (number),
      id INTEGER NOT NULL,
      password_salt BLOB NOT NULL,
      password_hash BLOB NOT NULL,
      signaling_key BLOB NOT NULL,
      registration_id INTEGER NOT NULL,
      fetches_messages INTEGER NOT NULL,
      gcm_id BLOB,
      apn_id BLOB,
      voip_apn_id BLOB,
      name BLOB,
      user_agent BLOB,
      has_signed_prekey INTEGER NOT NULL,
      last_seen INTEGER NOT NULL,
      created INTEGER NOT NULL,
      PRIMARY KEY (account, id)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE prekeys (
      account INTEGER NOT NULL,
      device INTEGER NOT NULL,
      key_id INTEGER NOT NULL,
      public_key BLOB NOT NULL,
      PRIMARY KEY (account, device, key_id),
      FOREIGN KEY (account, device) REFERENCES devices (account, id) ON DELETE CASCADE
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE last_resort_prekeys (
      account INTEGER NOT NULL,
      device INTEGER NOT NULL,
      key_id INTEGER NOT NULL,
      public_key BLOB NOT NULL,
      PRIMARY KEY (account, device),
      FOREIGN KEY (account, device) REFERENCES devices (account, id) ON DELETE CASCADE
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE messages (
      sequence INTEGER PRIMARY KEY AUTOINCREMENT,
      account INTEGER NOT NULL,
      device INTEGER NOT NULL,
      arrived_day INTEGER NOT NULL,
      type INTEGER NOT NULL,
      source INTEGER NOT NULL,
      source_device INTEGER NOT NULL,
      relay TEXT,
      timestamp INTEGER NOT NULL,
      message BLOB,
      content BLOB,
      fingerprint BLOB NOT NULL
    ) STRICT;
    CREATE INDEX messages_by_mailbox ON messages (account, device, sequence);
    CREATE UNIQUE INDEX messages_once ON messages (account, device, fingerprint);
    CREATE INDEX messages_by_day ON messages (arrived_day);

    CREATE TABLE acknowledged (
      account INTEGER NOT NULL,
      device INTEGER NOT NULL,
      fingerprint BLOB NOT NULL,
      day INTEGER NOT NULL,
      PRIMARY KEY (account, device, fingerprint)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX acknowledged_by_day ON acknowledged (day);

    CREATE TABLE peers (
      name TEXT PRIMARY KEY,
      url TEXT NOT NULL,
      ca_certificate BLOB NOT NULL,
      state TEXT NOT NULL,
      scopes TEXT NOT NULL,
      added INTEGER NOT NULL,
      contacts_pass INTEGER NOT NULL DEFAULT 0,
      contacts_mark BLOB
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE contacts (
      peer TEXT NOT NULL REFERENCES peers (name) ON DELETE CASCADE,
      token BLOB NOT NULL,
      supports_sms INTEGER NOT NULL,
      voice INTEGER NOT NULL,
      pass INTEGER NOT NULL,
      PRIMARY KEY (peer, token)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX contacts_by_token ON contacts (token);

    CREATE TABLE invitations (
      secret_hash BLOB PRIMARY KEY,
      expires INTEGER NOT NULL,
      scopes TEXT NOT NULL,
      redeemed_by BLOB
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE revisions (
      subject TEXT PRIMARY KEY,
      value INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    INSERT INTO revisions (subject, value) VALUES ('accounts', 1), ('peers', 1);
    """
}

extension EmbeddedStorage {
  package func migrations() async throws(StoreError) -> [MigrationStatus] {
    let applied = try await read { db in try Self.applied(in: db) }
    let known = EmbeddedMigration.all.map { step in
      MigrationStatus(version: step.version, name: step.name, applied: applied.first { $0.version == step.version }?.at)
    }
    let newer = applied.filter { $0.version > EmbeddedMigration.newest }
      .map { MigrationStatus(version: $0.version, name: $0.name, applied: $0.at) }
    return known + newer
  }

  package func migrate(progress: @Sendable (MigrationStatus) -> Void) async throws(StoreError) {
    for step in EmbeddedMigration.all {
      if let done = try await run(step) { progress(done) }
    }
  }

  package func compatibility() async throws(StoreError) -> SchemaCompatibility {
    let applied = try await read { db in try Self.applied(in: db) }
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

  /// - Returns: nil when the step had run before; another process may have been faster.
  private func run(_ step: EmbeddedMigration) async throws(StoreError) -> MigrationStatus? {
    let now = clock.now()
    return try await write { db in
      try db.execute(sql: Self.historyTable)
      guard try !Self.applied(in: db).contains(where: { $0.version == step.version }) else { return nil }
      try db.execute(sql: step.sql)
      try db.run(
        "INSERT INTO relay_migrations (version, name, applied, usable_from) VALUES (?, ?, ?, ?)",
        [step.version, step.name, now.millis, step.usableFrom])
      return MigrationStatus(version: step.version, name: step.name, applied: now)
    }
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
  /// A number that rises with each change of a subject, by whatever process.
  enum Revision: String { case accounts, peers }

  func revision(_ subject: Revision) throws -> Int64 {
    try Fields.valid(row("SELECT value FROM revisions WHERE subject = ?", [subject.rawValue])).integer(0)
  }
  func raise(_ subject: Revision) throws {
    try run("UPDATE revisions SET value = value + 1 WHERE subject = ?", [subject.rawValue])
  }
}
