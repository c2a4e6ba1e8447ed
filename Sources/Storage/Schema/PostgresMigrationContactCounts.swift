// The eighth step of the schema: how many contacts of each peer are kept (docs/federation.md, "The directory").

extension PostgresMigration {
  // Builds of before go on working: triggers count what they add and remove. To count the rows anew at each round takes longer
  // than a statement may, where a peer lists ten million and nobody has vacuumed them yet.
  //
  // Each peer has its row, of its own so that nobody waits for it who only wants the peer. Whoever adds or removes contacts
  // takes the peer's row, then this one, then theirs (`PostgresStorage.contactLocks`). `revision` rises with every change:
  // who counts them one by one finds out by it whether they have changed meanwhile.
  static let contactCounts = [
    // From here to the commit nobody adds contacts, so that what is counted stays true.
    "DO $$ BEGIN LOCK TABLE peers, peer_contacts IN SHARE ROW EXCLUSIVE MODE; END $$",
    """
    CREATE TABLE contact_counts (
      peer text COLLATE "C" NOT NULL,
      contacts bigint NOT NULL,
      revision bigint NOT NULL DEFAULT 0,
      PRIMARY KEY (peer)
    )
    """,
    """
    INSERT INTO contact_counts (peer, contacts)
    SELECT p.name, coalesce(c.contacts, 0)
    FROM peers AS p LEFT JOIN (SELECT peer, count(*) AS contacts FROM peer_contacts GROUP BY peer) AS c ON c.peer = p.name
    """,
    """
    CREATE FUNCTION relay_peer_counted() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      IF TG_OP = 'DELETE' THEN
        DELETE FROM contact_counts WHERE peer = OLD.name;
        RETURN NULL;
      END IF;
      INSERT INTO contact_counts (peer, contacts) SELECT NEW.name, count(*) FROM peer_contacts WHERE peer = NEW.name
      ON CONFLICT (peer) DO NOTHING;
      RETURN NULL;
    END $$
    """,
    """
    CREATE TRIGGER relay_peer_counted AFTER INSERT OR DELETE ON peers FOR EACH ROW
    EXECUTE FUNCTION relay_peer_counted()
    """,
    // Refreshing a contact is no change: of an INSERT that meets one, the rows it added are seen here alone.
    """
    CREATE FUNCTION relay_contacts_counted() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      UPDATE contact_counts AS k SET revision = k.revision + 1,
        contacts = k.contacts + CASE TG_OP WHEN 'INSERT' THEN n.contacts ELSE -n.contacts END
      FROM (SELECT c.peer, count(*) AS contacts FROM changed AS c GROUP BY c.peer) AS n
      WHERE k.peer = n.peer;
      RETURN NULL;
    END $$
    """,
    """
    CREATE TRIGGER relay_contacts_counted_more AFTER INSERT ON peer_contacts REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION relay_contacts_counted()
    """,
    """
    CREATE TRIGGER relay_contacts_counted_less AFTER DELETE ON peer_contacts REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION relay_contacts_counted()
    """,
  ]
}
