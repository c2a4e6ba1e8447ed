// The fifteenth step of the embedded schema: clients that name no relay (docs/federation.md, "Clients that name no relay").

extension EmbeddedMigration {
  // A mark has one peer, the first that told it. `place` rises: by it the oldest marks of a peer are known.
  static let implicitRouting = """
    ALTER TABLE peers ADD COLUMN implicit INTEGER NOT NULL DEFAULT 1;
    CREATE TABLE attachment_marks (
      place INTEGER PRIMARY KEY AUTOINCREMENT,
      mark INTEGER NOT NULL UNIQUE,
      peer TEXT NOT NULL REFERENCES peers (name) ON DELETE CASCADE
    ) STRICT;
    CREATE INDEX attachment_marks_by_peer ON attachment_marks (peer, place);
    """
}
