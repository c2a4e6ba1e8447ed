// The table of the relay's own secrets.

/// Secrets that all processes share, by their names.
enum SecretSchema {
  static let postgres = [
    """
    CREATE TABLE server_secrets (
      name text COLLATE "C" NOT NULL,
      secret bytea NOT NULL,
      PRIMARY KEY (name)
    )
    """
  ]

  static let embedded = """
    CREATE TABLE server_secrets (
      name TEXT PRIMARY KEY,
      secret BLOB NOT NULL
    ) STRICT, WITHOUT ROWID;
    """
}
