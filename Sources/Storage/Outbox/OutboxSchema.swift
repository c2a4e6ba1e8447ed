// The tables of messages that wait for a peer.

/// `bundle` is the submission as it goes to the peer; `bytes` counts what the sender wrote. The fingerprint tells a
/// repeated submission. `outbox_charges` is the sum of a peer's rows: bounds are compared with one row, which also
/// keeps the rows in the order of commits. In SQLite the devices and registration ids of `confirmed_devices` stand as
/// `DEVICE:ID`, ascending, with a space between them, and no peer goes while messages wait for it.
enum OutboxSchema {
  static let postgres = [
    "CREATE SEQUENCE outbox_sequence",
    """
    CREATE TABLE outbox (
      peer text COLLATE "C" NOT NULL,
      sequence bigint NOT NULL DEFAULT nextval('outbox_sequence'),
      account bigint NOT NULL,
      device integer NOT NULL,
      destination bigint NOT NULL,
      covers_master_only boolean NOT NULL,
      bundle bytea NOT NULL,
      bytes bigint NOT NULL,
      fingerprint uuid NOT NULL,
      accepted bigint NOT NULL,
      attempts integer NOT NULL DEFAULT 0,
      not_before bigint NOT NULL,
      PRIMARY KEY (peer, sequence),
      UNIQUE (peer, fingerprint)
    )
    """,
    "CREATE INDEX outbox_by_destination ON outbox (peer, destination)",
    "CREATE UNIQUE INDEX outbox_by_sequence ON outbox (sequence)",
    "CREATE INDEX outbox_by_due ON outbox (peer, not_before)",
    """
    CREATE TABLE outbox_charges (
      peer text COLLATE "C" NOT NULL,
      messages bigint NOT NULL,
      bytes bigint NOT NULL,
      retried bigint NOT NULL DEFAULT 0,
      PRIMARY KEY (peer)
    )
    """,
    """
    CREATE TABLE confirmed_devices (
      account bigint NOT NULL,
      peer text COLLATE "C" NOT NULL,
      devices integer[] NOT NULL,
      registration_ids bigint[] NOT NULL,
      confirmed bigint NOT NULL,
      PRIMARY KEY (account, peer)
    )
    """,
    "CREATE INDEX confirmed_devices_by_time ON confirmed_devices (confirmed)",
    "CREATE INDEX confirmed_devices_by_peer ON confirmed_devices (peer)",
  ]

  static let embedded = """
    CREATE TABLE outbox (
      sequence INTEGER PRIMARY KEY AUTOINCREMENT,
      peer TEXT NOT NULL REFERENCES peers (name) ON DELETE RESTRICT,
      account INTEGER NOT NULL,
      device INTEGER NOT NULL,
      destination INTEGER NOT NULL,
      covers_master_only INTEGER NOT NULL,
      bundle BLOB NOT NULL,
      bytes INTEGER NOT NULL,
      fingerprint BLOB NOT NULL,
      accepted INTEGER NOT NULL,
      attempts INTEGER NOT NULL DEFAULT 0,
      not_before INTEGER NOT NULL
    ) STRICT;
    CREATE UNIQUE INDEX outbox_by_fingerprint ON outbox (peer, fingerprint);
    CREATE INDEX outbox_by_destination ON outbox (peer, destination);
    CREATE INDEX outbox_by_peer ON outbox (peer, sequence);
    CREATE INDEX outbox_by_due ON outbox (peer, not_before);

    CREATE TABLE outbox_charges (
      peer TEXT PRIMARY KEY REFERENCES peers (name) ON DELETE CASCADE,
      messages INTEGER NOT NULL,
      bytes INTEGER NOT NULL,
      retried INTEGER NOT NULL DEFAULT 0
    ) STRICT, WITHOUT ROWID;
    CREATE TRIGGER outbox_charged AFTER INSERT ON outbox BEGIN
      INSERT INTO outbox_charges (peer, messages, bytes) VALUES (NEW.peer, 1, NEW.bytes)
      ON CONFLICT (peer) DO UPDATE SET messages = messages + 1, bytes = bytes + excluded.bytes;
    END;
    CREATE TRIGGER outbox_released AFTER DELETE ON outbox BEGIN
      UPDATE outbox_charges SET messages = messages - 1, bytes = bytes - OLD.bytes WHERE peer = OLD.peer;
    END;

    CREATE TABLE confirmed_devices (
      account INTEGER NOT NULL,
      peer TEXT NOT NULL REFERENCES peers (name) ON DELETE CASCADE,
      devices TEXT NOT NULL,
      confirmed INTEGER NOT NULL,
      PRIMARY KEY (account, peer)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX confirmed_devices_by_time ON confirmed_devices (confirmed);
    """
}
