// The fifteenth step of the schema: clients that name no relay (docs/federation.md, "Clients that name no relay").

extension PostgresMigration {
  // Builds of before go on working: they route nothing by themselves, and their ids of attachments are marked by chance.
  static let implicitRouting = [
    "ALTER TABLE peers ADD COLUMN implicit boolean NOT NULL DEFAULT true",
    // A mark has one peer, the first that told it. `place` rises: by it the oldest marks of a peer are known.
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
}
