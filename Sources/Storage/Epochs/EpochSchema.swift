// The tables of the epoch, and of stores that were put back.

/// `store_restores` has a row for each kind of note, the last one (`RestoreNotes`).
enum EpochSchema {
  static let postgres = [
    """
    CREATE TABLE epochs (
      singleton boolean NOT NULL DEFAULT true CHECK (singleton),
      value bigint NOT NULL,
      PRIMARY KEY (singleton)
    )
    """,
    "INSERT INTO epochs (value) VALUES (0)",
    """
    CREATE TABLE store_restores (
      kind text COLLATE "C" NOT NULL,
      word text NOT NULL,
      behind bigint NOT NULL,
      noted bigint NOT NULL,
      PRIMARY KEY (kind)
    )
    """,
  ]

  static let embedded = """
    CREATE TABLE epochs (
      singleton INTEGER PRIMARY KEY CHECK (singleton = 1),
      value INTEGER NOT NULL
    ) STRICT;
    INSERT INTO epochs (singleton, value) VALUES (1, 0);

    CREATE TABLE store_restores (
      kind TEXT PRIMARY KEY,
      word TEXT NOT NULL,
      behind INTEGER NOT NULL,
      noted INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    """
}
