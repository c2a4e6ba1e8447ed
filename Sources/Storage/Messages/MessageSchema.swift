// The tables of mailboxes.

/// Days are those of UTC. In SQLite the key of a message is its sequence: AUTOINCREMENT keeps it rising past removed
/// rows.
///
/// `acknowledged` recognises a repeated submission whose first message was removed (`append`), and the message that a
/// client sends a receipt for (`standing`). Receipts of accounts of this relay are in neither need, and are not kept.
/// `source` and `sent` are NULL where nobody may be told that the message was received: it was a notice.
enum MessageSchema {
  static let postgres = [
    "CREATE SEQUENCE message_sequence",
    // The unique index leads a retry to the row that it repeats.
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
    // The sweep of wakes reads the messages that arrived lately. A B-tree: a queue's holes are filled again, so
    // numbers do not stand in order in the table.
    "CREATE INDEX messages_by_arrival ON messages (sequence)",
    """
    CREATE TABLE acknowledged (
      account bigint NOT NULL,
      device integer NOT NULL,
      fingerprint uuid NOT NULL,
      day date NOT NULL,
      source bigint,
      sent bigint,
      PRIMARY KEY (account, device, fingerprint, day)
    ) PARTITION BY RANGE (day)
    """,
  ]

  static let embedded = """
    CREATE TABLE messages (
      sequence INTEGER PRIMARY KEY AUTOINCREMENT,
      account INTEGER NOT NULL,
      device INTEGER NOT NULL,
      day INTEGER NOT NULL,
      type INTEGER NOT NULL,
      source INTEGER NOT NULL,
      source_device INTEGER NOT NULL,
      relay TEXT,
      sent INTEGER NOT NULL,
      message BLOB,
      content BLOB,
      fingerprint BLOB NOT NULL
    ) STRICT;
    CREATE INDEX messages_by_mailbox ON messages (account, device, sequence);
    CREATE UNIQUE INDEX messages_once ON messages (account, device, fingerprint);
    CREATE INDEX messages_by_day ON messages (day);
    CREATE INDEX messages_by_source ON messages (account, device, source, sent);

    CREATE TABLE acknowledged (
      account INTEGER NOT NULL,
      device INTEGER NOT NULL,
      fingerprint BLOB NOT NULL,
      day INTEGER NOT NULL,
      source INTEGER,
      sent INTEGER,
      PRIMARY KEY (account, device, fingerprint)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX acknowledged_by_day ON acknowledged (day);
    CREATE INDEX acknowledged_by_source ON acknowledged (account, device, source, sent, day) WHERE source IS NOT NULL;
    """
}
