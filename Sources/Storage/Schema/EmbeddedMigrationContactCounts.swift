// The eighth step of the embedded schema: how many contacts of each peer are kept (docs/federation.md, "The directory").

extension EmbeddedMigration {
  // Counted by triggers, whichever build adds or removes them: to count the rows anew at each round would take seconds where a
  // peer lists millions. What a peer's removal takes away with it is counted for nobody.
  static let contactCounts = """
    CREATE TABLE contact_counts (
      peer TEXT PRIMARY KEY REFERENCES peers (name) ON DELETE CASCADE,
      contacts INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    INSERT INTO contact_counts (peer, contacts)
    SELECT name, (SELECT count(*) FROM contacts WHERE peer = name) FROM peers;

    CREATE TRIGGER peer_counted AFTER INSERT ON peers BEGIN
      INSERT INTO contact_counts (peer, contacts) VALUES (NEW.name, 0);
    END;
    CREATE TRIGGER contact_counted_more AFTER INSERT ON contacts BEGIN
      UPDATE contact_counts SET contacts = contacts + 1 WHERE peer = NEW.peer;
    END;
    CREATE TRIGGER contact_counted_less AFTER DELETE ON contacts BEGIN
      UPDATE contact_counts SET contacts = contacts - 1 WHERE peer = OLD.peer;
    END;
    """
}
