// The twelfth step of the embedded schema: the last time that was seen.

extension EmbeddedMigration {
  // `SeenTime`, in milliseconds; 0 before the first run of maintenance.
  static let seenTime = """
    CREATE TABLE store_clock (
      only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
      seen INTEGER NOT NULL,
      cleared INTEGER NOT NULL
    ) STRICT;
    INSERT INTO store_clock (only_row, seen, cleared) VALUES (1, 0, 0);
    """
}
