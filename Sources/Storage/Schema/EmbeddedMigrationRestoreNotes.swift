// The eleventh step of the embedded schema: what is known of a store that was put back.

extension EmbeddedMigration {
  // A row for each kind of note, the last one: `RestoreNotes`.
  static let restoreNotes = """
    CREATE TABLE store_restores (
      kind TEXT PRIMARY KEY,
      word TEXT NOT NULL,
      behind INTEGER NOT NULL,
      noted INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    """
}
