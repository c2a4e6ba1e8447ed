// The tables of peers.

/// A mark of attachments has one peer, the first that told it. `attachment_marks.place` rises: by it the oldest marks
/// of a peer are known. In SQLite `peers.revoked_serials` is the serials' lower-case hex, ascending, with a space
/// between them.
enum PeerSchema {
  static let postgres = [
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
      witnessed_epoch bigint NOT NULL DEFAULT 0,
      holds_messages boolean NOT NULL DEFAULT false,
      contacts_mode text NOT NULL DEFAULT 'copy',
      next_ca_certificate bytea,
      revoked_serials bytea[] NOT NULL DEFAULT '{}',
      statement_sequence bigint NOT NULL DEFAULT 0,
      fault text,
      fault_since bigint,
      contacts_begun bigint NOT NULL DEFAULT 0,
      implicit boolean NOT NULL DEFAULT true,
      suspension_reason text,
      suspended_until bigint,
      PRIMARY KEY (name)
    )
    """,
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
    CREATE TABLE attachment_marks (
      mark integer NOT NULL,
      peer text COLLATE "C" NOT NULL REFERENCES peers (name) ON DELETE CASCADE,
      place bigint GENERATED ALWAYS AS IDENTITY,
      PRIMARY KEY (mark)
    )
    """,
    "CREATE INDEX attachment_marks_by_peer ON attachment_marks (peer, place)",
  ]

  static let embedded = """
    CREATE TABLE peers (
      name TEXT PRIMARY KEY,
      url TEXT NOT NULL,
      ca_certificate BLOB NOT NULL,
      state TEXT NOT NULL,
      scopes TEXT NOT NULL,
      added INTEGER NOT NULL,
      contacts_pass INTEGER NOT NULL DEFAULT 0,
      contacts_mark BLOB,
      witnessed_epoch INTEGER NOT NULL DEFAULT 0,
      holds_messages INTEGER NOT NULL DEFAULT 0,
      contacts_mode TEXT NOT NULL DEFAULT 'copy',
      contacts_begun INTEGER NOT NULL DEFAULT 0,
      next_ca_certificate BLOB,
      revoked_serials TEXT NOT NULL DEFAULT '',
      statement_sequence INTEGER NOT NULL DEFAULT 0,
      fault TEXT,
      fault_since INTEGER,
      implicit INTEGER NOT NULL DEFAULT 1,
      suspension_reason TEXT,
      suspended_until INTEGER
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE invitations (
      secret_hash BLOB PRIMARY KEY,
      expires INTEGER NOT NULL,
      scopes TEXT NOT NULL,
      redeemed_by BLOB
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE attachment_marks (
      place INTEGER PRIMARY KEY AUTOINCREMENT,
      mark INTEGER NOT NULL UNIQUE,
      peer TEXT NOT NULL REFERENCES peers (name) ON DELETE CASCADE
    ) STRICT;
    CREATE INDEX attachment_marks_by_peer ON attachment_marks (peer, place);
    """
}
