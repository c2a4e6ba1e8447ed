// The steps of PostgreSQL's schema. A step that was ever released never changes; new ones only expand, and contract
// once nothing that needs the old shape can still run.

/// One step of the schema, run as one transaction.
struct PostgresMigration: Sendable {
  let version: Int
  let name: String
  /// The newest step that the oldest build knows which can still work after this one.
  let oldestCompatible: Int
  let statements: [String]

  /// Ascending, without gaps, from 1.
  static let all = [
    PostgresMigration(version: 1, name: "the first schema", oldestCompatible: 1, statements: initial),
    PostgresMigration(version: 2, name: "the whole client API", oldestCompatible: 1, statements: clientAPI),
    PostgresMigration(version: 3, name: "federation to trust", oldestCompatible: 2, statements: trustedFederation),
    PostgresMigration(version: 4, name: "the directory feed", oldestCompatible: 3, statements: directoryFeed),
    PostgresMigration(
      version: 5, name: "outputs for oblivious look-ups", oldestCompatible: 4, statements: obliviousOutputs),
    PostgresMigration(version: 6, name: "waking devices by push", oldestCompatible: 5, statements: waking),
    PostgresMigration(version: 7, name: "device notifications", oldestCompatible: 5, statements: deviceNotifications),
    PostgresMigration(version: 8, name: "counts of contacts", oldestCompatible: 5, statements: contactCounts),
    PostgresMigration(version: 9, name: "claims to contacts", oldestCompatible: 5, statements: contactClaims),
    PostgresMigration(
      version: 10, name: "number tokens that are good once", oldestCompatible: 5, statements: numberTokens),
    PostgresMigration(version: 11, name: "notes of restores", oldestCompatible: 5, statements: restoreNotes),
    PostgresMigration(version: 12, name: "the last seen time", oldestCompatible: 5, statements: seenTime),
    PostgresMigration(version: 13, name: "the loss ledger", oldestCompatible: 5, statements: lossLedger),
    PostgresMigration(version: 14, name: "waking browsers", oldestCompatible: 5, statements: browsers),
    PostgresMigration(
      version: 15, name: "clients that name no relay", oldestCompatible: 5, statements: implicitRouting),
    PostgresMigration(version: 16, name: "deleted accounts", oldestCompatible: 5, statements: accountRemovals),
    PostgresMigration(version: 17, name: "the audit log, suspensions", oldestCompatible: 5, statements: auditLog),
  ]
  /// The newest step this build knows.
  static let newest = all.last?.version ?? 0
  /// The oldest schema this build can work on.
  static let needed = 17

  // Every key of an account's row begins with its number, so that the tables can be distributed by it. Times are
  // milliseconds since 1970; days are those of UTC. A text that a client made up is `bytea`: it may hold any Unicode
  // text, and PostgreSQL's `text` takes no NUL.
  private static let initial = [
    """
    CREATE TABLE accounts (
      account bigint NOT NULL,
      token bytea NOT NULL,
      active boolean NOT NULL,
      supports_sms boolean NOT NULL,
      voice boolean NOT NULL,
      identity_key bytea,
      PRIMARY KEY (account)
    )
    """,
    "CREATE INDEX accounts_by_token ON accounts (token, account)",
    """
    CREATE TABLE devices (
      account bigint NOT NULL,
      device integer NOT NULL,
      password_salt bytea NOT NULL,
      password_hash bytea NOT NULL,
      signaling_key bytea NOT NULL,
      registration_id integer NOT NULL,
      fetches_messages boolean NOT NULL,
      gcm_id bytea,
      apn_id bytea,
      voip_apn_id bytea,
      name bytea,
      user_agent bytea,
      has_signed_prekey boolean NOT NULL,
      last_seen bigint NOT NULL,
      created bigint NOT NULL,
      PRIMARY KEY (account, device)
    )
    """,
    // `confirmed` is true only within the transaction of a registration.
    """
    CREATE TABLE verification_codes (
      account bigint NOT NULL,
      code bytea NOT NULL,
      expires bigint NOT NULL,
      tries integer NOT NULL,
      confirmed boolean NOT NULL DEFAULT false,
      PRIMARY KEY (account)
    )
    """,
    """
    CREATE TABLE one_time_prekeys (
      account bigint NOT NULL,
      device integer NOT NULL,
      key_id bigint NOT NULL,
      public_key bytea NOT NULL,
      PRIMARY KEY (account, device, key_id)
    )
    """,
    """
    CREATE TABLE last_resort_prekeys (
      account bigint NOT NULL,
      device integer NOT NULL,
      key_id bigint NOT NULL,
      public_key bytea NOT NULL,
      PRIMARY KEY (account, device)
    )
    """,
    "CREATE SEQUENCE message_sequence",
    // The unique index leads a retry to the row it repeats.
    """
    CREATE TABLE messages (
      account bigint NOT NULL,
      device integer NOT NULL,
      sequence bigint NOT NULL,
      day date NOT NULL,
      type smallint NOT NULL,
      source bigint NOT NULL,
      source_device integer NOT NULL,
      relay text COLLATE "C",
      sent bigint NOT NULL,
      message bytea,
      content bytea,
      fingerprint uuid NOT NULL,
      PRIMARY KEY (account, device, sequence, day),
      UNIQUE (account, device, fingerprint, day)
    ) PARTITION BY RANGE (day)
    """,
    // Ciphertext does not shrink: no time is spent on trying.
    "ALTER TABLE messages ALTER COLUMN message SET STORAGE EXTERNAL, ALTER COLUMN content SET STORAGE EXTERNAL",
    """
    CREATE TABLE acknowledged (
      account bigint NOT NULL,
      device integer NOT NULL,
      fingerprint uuid NOT NULL,
      day date NOT NULL,
      PRIMARY KEY (account, device, fingerprint, day)
    ) PARTITION BY RANGE (day)
    """,
    """
    CREATE TABLE peers (
      name text COLLATE "C" NOT NULL,
      url text NOT NULL,
      ca_certificate bytea NOT NULL,
      state text NOT NULL,
      scopes text NOT NULL,
      added bigint NOT NULL,
      contacts_pass bigint NOT NULL DEFAULT 0,
      contacts_mark bytea,
      PRIMARY KEY (name)
    )
    """,
    """
    CREATE TABLE peer_contacts (
      peer text COLLATE "C" NOT NULL,
      token bytea NOT NULL,
      supports_sms boolean NOT NULL,
      voice boolean NOT NULL,
      pass bigint NOT NULL,
      PRIMARY KEY (peer, token)
    )
    """,
    "CREATE INDEX peer_contacts_by_token ON peer_contacts (token, peer)",
    """
    CREATE TABLE invitations (
      secret_hash bytea NOT NULL,
      expires bigint NOT NULL,
      scopes text NOT NULL,
      redeemed_by bytea,
      PRIMARY KEY (secret_hash)
    )
    """,
    """
    CREATE TABLE revisions (
      subject text NOT NULL,
      value bigint NOT NULL,
      PRIMARY KEY (subject)
    )
    """,
    "INSERT INTO revisions (subject, value) VALUES ('accounts', 1), ('peers', 1)",
  ]
}
