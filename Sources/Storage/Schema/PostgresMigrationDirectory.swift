// The fourth step of the schema: who wants to be found, and the feed by which every process keeps the whole directory in
// memory (docs/directory.md).

extension PostgresMigration {
  // Builds of the third step go on working: they name their columns, and what they write reaches the feed by triggers. They
  // know nothing of accounts that do not want to be found, and list them to peers as active.
  //
  // A change names a token and not its state: who reads it asks for the state that stands then, and may read a change twice.
  // So nobody takes turns to write here, other than for the listing: a change is keyed by its transaction, and a reader
  // begins anew at the oldest that may still commit (`PostgresDirectoryFeed`).
  static let directoryFeed = [
    // What these wait for, they wait for before the accounts are locked, without which nobody is served.
    "DO $$ BEGIN LOCK TABLE peers, peer_contacts IN SHARE ROW EXCLUSIVE MODE; END $$",
    "ALTER TABLE accounts ADD COLUMN discoverable boolean NOT NULL DEFAULT true",
    // Either `token` or `peer` is there.
    """
    CREATE TABLE directory_changes (
      changed xid8 NOT NULL DEFAULT pg_current_xact_id(),
      id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
      at bigint NOT NULL DEFAULT floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint,
      token bytea,
      peer text COLLATE "C",
      PRIMARY KEY (changed, id)
    )
    """,
    // Whose transaction is at or below it, may be forgotten.
    "INSERT INTO revisions (subject, value) VALUES ('directory-pruned', 0)",
    // Peers read those that do not want to be found as inactive.
    "DROP TRIGGER relay_listed_anew ON accounts",
    """
    CREATE TRIGGER relay_listed_anew
    BEFORE UPDATE OF token, active, supports_sms, voice, discoverable ON accounts FOR EACH ROW
    WHEN ((OLD.token, OLD.active AND OLD.discoverable, OLD.supports_sms, OLD.voice)
      IS DISTINCT FROM (NEW.token, NEW.active AND NEW.discoverable, NEW.supports_sms, NEW.voice))
    EXECUTE FUNCTION relay_listed()
    """,
    // What nobody finds before or after is no change.
    """
    CREATE FUNCTION relay_account_changed() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      IF TG_OP = 'INSERT' THEN
        INSERT INTO directory_changes (token) VALUES (NEW.token);
        RETURN NULL;
      END IF;
      INSERT INTO directory_changes (token) VALUES (OLD.token);
      IF TG_OP = 'UPDATE' THEN
        INSERT INTO directory_changes (token) SELECT NEW.token WHERE NEW.token <> OLD.token;
      END IF;
      RETURN NULL;
    END $$
    """,
    """
    CREATE TRIGGER relay_account_added AFTER INSERT ON accounts FOR EACH ROW
    WHEN (NEW.active AND NEW.discoverable) EXECUTE FUNCTION relay_account_changed()
    """,
    """
    CREATE TRIGGER relay_account_removed AFTER DELETE ON accounts FOR EACH ROW
    WHEN (OLD.active AND OLD.discoverable) EXECUTE FUNCTION relay_account_changed()
    """,
    """
    CREATE TRIGGER relay_account_changed
    AFTER UPDATE OF token, active, supports_sms, voice, discoverable ON accounts FOR EACH ROW
    WHEN ((OLD.active AND OLD.discoverable OR NEW.active AND NEW.discoverable)
      AND (OLD.token, OLD.active AND OLD.discoverable, OLD.supports_sms, OLD.voice)
        IS DISTINCT FROM (NEW.token, NEW.active AND NEW.discoverable, NEW.supports_sms, NEW.voice))
    EXECUTE FUNCTION relay_account_changed()
    """,
    // One row for the peer, however many contacts it has.
    """
    CREATE FUNCTION relay_peer_changed() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      INSERT INTO directory_changes (peer) VALUES (OLD.name);
      RETURN NULL;
    END $$
    """,
    """
    CREATE TRIGGER relay_peer_changed AFTER UPDATE OF state, contacts_mode ON peers FOR EACH ROW
    WHEN ((OLD.state = 'active' AND OLD.contacts_mode = 'copy')
      IS DISTINCT FROM (NEW.state = 'active' AND NEW.contacts_mode = 'copy'))
    EXECUTE FUNCTION relay_peer_changed()
    """,
    "CREATE TRIGGER relay_peer_removed AFTER DELETE ON peers FOR EACH ROW EXECUTE FUNCTION relay_peer_changed()",
    // Contacts of other peers are no part of the directory: removing a peer's, which is suspended by then, changes nothing.
    // Whoever adds or removes contacts has locked the peer's row before, so that what is read of it here stays true to the
    // commit.
    """
    CREATE FUNCTION relay_contacts_changed() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      INSERT INTO directory_changes (token)
      SELECT c.token FROM changed AS c
      WHERE (SELECT p.state = 'active' AND p.contacts_mode = 'copy' FROM peers AS p WHERE p.name = c.peer);
      RETURN NULL;
    END $$
    """,
    """
    CREATE TRIGGER relay_contacts_added AFTER INSERT ON peer_contacts REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION relay_contacts_changed()
    """,
    """
    CREATE TRIGGER relay_contacts_removed AFTER DELETE ON peer_contacts REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION relay_contacts_changed()
    """,
    // By rows: every pass over a listing writes all of its contacts, and next to none of them has changed.
    """
    CREATE FUNCTION relay_contact_changed() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      INSERT INTO directory_changes (token)
      SELECT NEW.token FROM peers AS p
      WHERE p.name = NEW.peer AND p.state = 'active' AND p.contacts_mode = 'copy';
      RETURN NULL;
    END $$
    """,
    """
    CREATE TRIGGER relay_contact_changed AFTER UPDATE OF supports_sms, voice ON peer_contacts FOR EACH ROW
    WHEN ((OLD.supports_sms, OLD.voice) IS DISTINCT FROM (NEW.supports_sms, NEW.voice))
    EXECUTE FUNCTION relay_contact_changed()
    """,
    // The directory: ours first, else that of the peer that has listed the token for longest. Whether a peer's contacts are
    // part of it is asked of each row, and not joined: a plan that began with the peers would try every one of them for
    // every token.
    """
    CREATE VIEW directory_entries AS
    SELECT a.token, NULL::text COLLATE "C" AS peer, a.supports_sms, a.voice
    FROM accounts AS a WHERE a.active AND a.discoverable
    UNION ALL
    SELECT c.token, c.peer, c.supports_sms, c.voice
    FROM peer_contacts AS c
    WHERE (SELECT p.state = 'active' AND p.contacts_mode = 'copy' FROM peers AS p WHERE p.name = c.peer)
      AND NOT EXISTS (SELECT FROM accounts AS o WHERE o.token = c.token AND o.active AND o.discoverable)
      AND NOT EXISTS (
        SELECT FROM peer_contacts AS e
        WHERE e.token = c.token AND (e.since, e.peer) < (c.since, c.peer)
          AND (SELECT q.state = 'active' AND q.contacts_mode = 'copy' FROM peers AS q WHERE q.name = e.peer))
    """,
  ]
}
