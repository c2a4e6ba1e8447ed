// The schema of the embedded database: the steps that made it. Steps only go forward; a step that was ever released never
// changes.

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
    EmbeddedMigration(version: 1, name: "accounts, keys, messages, directory, peers", usableFrom: 1, sql: initial),
    EmbeddedMigration(
      version: 2, name: "linked devices, signed prekeys, receipts, attachments, epochs", usableFrom: 1,
      sql: wholeClientAPI),
    EmbeddedMigration(version: 3, name: "federation to trust", usableFrom: 2, sql: trustedFederation),
    EmbeddedMigration(version: 4, name: "the directory feed", usableFrom: 3, sql: directoryFeed),
    EmbeddedMigration(version: 5, name: "outputs for oblivious look-ups", usableFrom: 4, sql: obliviousOutputs),
    EmbeddedMigration(version: 6, name: "waking devices by push", usableFrom: 5, sql: waking),
    EmbeddedMigration(version: 7, name: "device notifications", usableFrom: 5, sql: deviceNotifications),
    EmbeddedMigration(version: 8, name: "counts of contacts", usableFrom: 5, sql: contactCounts),
    EmbeddedMigration(version: 9, name: "claims to contacts", usableFrom: 5, sql: contactClaims),
    EmbeddedMigration(version: 10, name: "number tokens that are good once", usableFrom: 5, sql: numberTokens),
    EmbeddedMigration(version: 11, name: "notes of restores", usableFrom: 5, sql: restoreNotes),
    EmbeddedMigration(version: 12, name: "the last seen time", usableFrom: 5, sql: seenTime),
    EmbeddedMigration(version: 13, name: "the loss ledger", usableFrom: 5, sql: lossLedger),
    EmbeddedMigration(version: 14, name: "waking browsers", usableFrom: 5, sql: browsers),
    EmbeddedMigration(version: 15, name: "clients that name no relay", usableFrom: 5, sql: implicitRouting),
    EmbeddedMigration(version: 16, name: "deleted accounts", usableFrom: 5, sql: accountRemovals),
    EmbeddedMigration(version: 17, name: "the audit log, suspensions", usableFrom: 5, sql: auditLog),
  ]
  static var newest: Int { all.last?.version ?? 0 }
  /// The oldest schema this build can work on.
  static let needed = 17

  // The account number comes first in every key; messages alone are keyed by their sequence, whose AUTOINCREMENT
  // keeps it rising past removed rows, and found through indexes that begin with the number. A text that a client made
  // up is a BLOB: it may hold any Unicode text, and SQLite's TEXT ends at a NUL.
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

  // A signed prekey stands with its device. `acknowledged.source` and `sent` are NULL for receipts and for rows of step 1. An attachment is asked for by its id
  // alone, and outlives a new installation of its account.
  private static let wholeClientAPI = """
    ALTER TABLE accounts ADD COLUMN registration_lock_salt BLOB;
    ALTER TABLE accounts ADD COLUMN registration_lock_hash BLOB;
    ALTER TABLE devices ADD COLUMN push_registered INTEGER;
    ALTER TABLE devices ADD COLUMN signed_prekey_id INTEGER;
    ALTER TABLE devices ADD COLUMN signed_prekey BLOB;
    ALTER TABLE devices ADD COLUMN signed_prekey_signature BLOB;

    CREATE TABLE linking_codes (
      account INTEGER PRIMARY KEY,
      code BLOB NOT NULL,
      expires INTEGER NOT NULL,
      tries INTEGER NOT NULL
    ) STRICT;

    CREATE INDEX messages_by_source ON messages (account, device, source, timestamp);
    ALTER TABLE acknowledged ADD COLUMN source INTEGER;
    ALTER TABLE acknowledged ADD COLUMN sent INTEGER;
    CREATE INDEX acknowledged_by_source ON acknowledged (account, device, source, sent, day) WHERE source IS NOT NULL;

    CREATE TABLE attachments (
      id INTEGER PRIMARY KEY,
      account INTEGER NOT NULL,
      bytes INTEGER,
      expires INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX attachments_by_account ON attachments (account, bytes);
    CREATE INDEX attachments_by_expiry ON attachments (expires);

    CREATE TABLE epochs (
      only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
      value INTEGER NOT NULL
    ) STRICT;
    INSERT INTO epochs (only_row, value) VALUES (1, 0);
    ALTER TABLE peers ADD COLUMN witnessed_epoch INTEGER NOT NULL DEFAULT 0;

    CREATE TABLE server_secrets (
      name TEXT PRIMARY KEY,
      secret BLOB NOT NULL
    ) STRICT, WITHOUT ROWID;
    """
}
