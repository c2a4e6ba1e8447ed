// The tables of prekeys. A signed one stands with its device (`AccountSchema`).

/// Prekeys that wait to be drawn.
enum PreKeySchema {
  static let postgres = [
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
  ]

  static let embedded = """
    CREATE TABLE one_time_prekeys (
      account INTEGER NOT NULL,
      device INTEGER NOT NULL,
      key_id INTEGER NOT NULL,
      public_key BLOB NOT NULL,
      PRIMARY KEY (account, device, key_id),
      FOREIGN KEY (account, device) REFERENCES devices (account, device) ON DELETE CASCADE
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE last_resort_prekeys (
      account INTEGER NOT NULL,
      device INTEGER NOT NULL,
      key_id INTEGER NOT NULL,
      public_key BLOB NOT NULL,
      PRIMARY KEY (account, device),
      FOREIGN KEY (account, device) REFERENCES devices (account, device) ON DELETE CASCADE
    ) STRICT, WITHOUT ROWID;
    """
}
