// The eleventh step of the schema: what is known of a store that was put back.

extension PostgresMigration {
  // Builds of before go on working: they note nothing.
  static let restoreNotes = [
    // A row for each kind of note, the last one: `RestoreNotes`.
    """
    CREATE TABLE store_restores (
      kind text COLLATE "C" NOT NULL,
      word text NOT NULL,
      behind bigint NOT NULL,
      noted bigint NOT NULL,
      PRIMARY KEY (kind)
    )
    """
  ]
}
