// The triggers that number the listing, count contacts and write the feed of the directory, whatever statement changes
// rows.

/// Peers read the listing of our accounts (docs/federation.md, "Whose a contact is"); processes follow the feed of the
/// whole directory (docs/directory.md). Triggers write both, in the transaction of the change.
enum DirectoryTriggers {
  static let postgres = [
    // The row of the revision is locked until the commit, so that revisions rise in the order of commits. `accounts`
    // always comes before `listing`: a registration raises it before it writes the account, and a change of a device
    // after it. Two transactions that took them in different orders would wait for each other. An INSERT that meets
    // the account becomes an UPDATE.
    //
    // An account that was never active and discoverable at a time has no revision, so no reader of the listing meets
    // it. A hidden account gets no revision for what changes.
    """
    CREATE FUNCTION relay_listed() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      IF TG_OP = 'INSERT' AND EXISTS (SELECT FROM accounts WHERE account = NEW.account) THEN
        RETURN NEW;
      END IF;
      IF NEW.active AND NEW.discoverable THEN
        NEW.was_listed := true;
      ELSIF TG_OP = 'INSERT' THEN
        RETURN NEW;
      ELSIF NOT (OLD.active AND OLD.discoverable) THEN
        RETURN NEW;
      END IF;
      PERFORM FROM revisions WHERE subject = 'accounts' FOR UPDATE;
      UPDATE revisions SET value = value + 1 WHERE subject = 'listing' RETURNING value INTO NEW.listing_revision;
      RETURN NEW;
    END $$
    """,
    "CREATE TRIGGER relay_listed_first BEFORE INSERT ON accounts FOR EACH ROW EXECUTE FUNCTION relay_listed()",
    // Peers read accounts that do not want to be found as inactive.
    """
    CREATE TRIGGER relay_listed_anew
    BEFORE UPDATE OF token, active, supports_sms, voice, discoverable ON accounts FOR EACH ROW
    WHEN ((OLD.token, OLD.active AND OLD.discoverable, OLD.supports_sms, OLD.voice)
      IS DISTINCT FROM (NEW.token, NEW.active AND NEW.discoverable, NEW.supports_sms, NEW.voice))
    EXECUTE FUNCTION relay_listed()
    """,
    // The rows of the revisions in the order of `relay_listed`.
    """
    CREATE FUNCTION relay_account_ended() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE revision bigint;
    BEGIN
      PERFORM FROM revisions WHERE subject = 'accounts' FOR UPDATE;
      UPDATE revisions SET value = value + 1 WHERE subject = 'listing' RETURNING value INTO revision;
      INSERT INTO unlisted_tokens (token, listing_revision, ended)
      VALUES (OLD.token, revision, floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint)
      ON CONFLICT (token) DO UPDATE SET listing_revision = excluded.listing_revision, ended = excluded.ended;
      RETURN NULL;
    END $$
    """,
    """
    CREATE TRIGGER relay_account_ended AFTER DELETE ON accounts FOR EACH ROW WHEN (OLD.was_listed)
    EXECUTE FUNCTION relay_account_ended()
    """,
    // Once listed again, the account itself stands in the listing, and none has its token twice.
    """
    CREATE FUNCTION relay_relisted() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      DELETE FROM unlisted_tokens WHERE token = NEW.token;
      RETURN NULL;
    END $$
    """,
    """
    CREATE TRIGGER relay_relisted AFTER INSERT OR UPDATE OF token, active, discoverable ON accounts FOR EACH ROW
    WHEN (NEW.active AND NEW.discoverable) EXECUTE FUNCTION relay_relisted()
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
    // Refreshing a contact is no change: of an INSERT that meets some, only the rows that it added are seen here.
    """
    CREATE FUNCTION relay_contacts_counted() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      UPDATE contact_counts AS k SET revision = k.revision + 1,
        contacts = k.contacts + CASE TG_OP WHEN 'INSERT' THEN n.contacts ELSE -n.contacts END,
        unlisted = k.unlisted + CASE TG_OP WHEN 'INSERT' THEN n.unlisted ELSE -n.unlisted END
      FROM (
        SELECT c.peer, count(*) AS contacts, count(c.unlisted) AS unlisted FROM changed AS c GROUP BY c.peer
      ) AS n
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
    // Every pass over a listing updates all of its contacts: only tombstones that it finds or leaves are counted.
    """
    CREATE FUNCTION relay_contacts_recounted() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      UPDATE contact_counts AS k SET revision = k.revision + 1, unlisted = k.unlisted + n.unlisted
      FROM (
        SELECT u.peer, sum(u.one) AS unlisted
        FROM (
          SELECT c.peer, 1 AS one FROM changed AS c WHERE c.unlisted IS NOT NULL
          UNION ALL SELECT f.peer, -1 FROM former AS f WHERE f.unlisted IS NOT NULL
        ) AS u GROUP BY u.peer
      ) AS n
      WHERE k.peer = n.peer;
      RETURN NULL;
    END $$
    """,
    """
    CREATE TRIGGER relay_contacts_recounted AFTER UPDATE ON peer_contacts
    REFERENCING OLD TABLE AS former NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION relay_contacts_recounted()
    """,
    // An account covers a peer's claim whether or not it is found itself.
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
    "CREATE TRIGGER relay_account_added AFTER INSERT ON accounts FOR EACH ROW EXECUTE FUNCTION relay_account_changed()",
    "CREATE TRIGGER relay_account_removed AFTER DELETE ON accounts FOR EACH ROW EXECUTE FUNCTION relay_account_changed()",
    // A change between two states that nobody finds is none.
    """
    CREATE TRIGGER relay_account_changed
    AFTER UPDATE OF token, active, supports_sms, voice, discoverable ON accounts FOR EACH ROW
    WHEN ((OLD.active AND OLD.discoverable OR NEW.active AND NEW.discoverable)
      AND (OLD.token, OLD.active AND OLD.discoverable, OLD.supports_sms, OLD.voice)
        IS DISTINCT FROM (NEW.token, NEW.active AND NEW.discoverable, NEW.supports_sms, NEW.voice))
    EXECUTE FUNCTION relay_account_changed()
    """,
    // One row for the peer, however many contacts it has. Claims of a peer that is asked cover those of copied ones.
    """
    CREATE FUNCTION relay_peer_changed() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      INSERT INTO directory_changes (peer) VALUES (OLD.name);
      RETURN NULL;
    END $$
    """,
    """
    CREATE TRIGGER relay_peer_changed AFTER UPDATE OF state, contacts_mode ON peers FOR EACH ROW
    WHEN (CASE WHEN OLD.state = 'active' THEN OLD.contacts_mode ELSE 'none' END
      <> CASE WHEN NEW.state = 'active' THEN NEW.contacts_mode ELSE 'none' END)
    EXECUTE FUNCTION relay_peer_changed()
    """,
    "CREATE TRIGGER relay_peer_removed AFTER DELETE ON peers FOR EACH ROW EXECUTE FUNCTION relay_peer_changed()",
    // Contacts of a suspended peer are no part of the directory. Every change of contacts has locked the peer's row
    // before, so what is read of it here stays true to the commit. A claim that ends may uncover another peer's,
    // whatever became of its own peer. One of a peer that is asked may cover another's.
    """
    CREATE FUNCTION relay_contacts_changed() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      INSERT INTO directory_changes (token)
      SELECT c.token FROM changed AS c
      WHERE (SELECT p.state = 'active' AND p.contacts_mode = 'copy' FROM peers AS p WHERE p.name = c.peer)
        OR (TG_OP = 'DELETE'
            OR (SELECT p.state = 'active' AND p.contacts_mode = 'query' FROM peers AS p WHERE p.name = c.peer))
          AND EXISTS (SELECT FROM peer_contacts AS e WHERE e.token = c.token AND e.peer <> c.peer);
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
      WHERE p.name = NEW.peer AND p.state = 'active'
        AND (p.contacts_mode = 'copy' OR p.contacts_mode = 'query' AND OLD.since <> NEW.since);
      RETURN NULL;
    END $$
    """,
    """
    CREATE TRIGGER relay_contact_changed AFTER UPDATE OF supports_sms, voice, unlisted, since ON peer_contacts FOR EACH ROW
    WHEN ((OLD.supports_sms, OLD.voice, OLD.unlisted IS NULL, OLD.since)
      IS DISTINCT FROM (NEW.supports_sms, NEW.voice, NEW.unlisted IS NULL, NEW.since))
    EXECUTE FUNCTION relay_contact_changed()
    """,
  ]

  static let embedded = """
    CREATE TRIGGER listed_first AFTER INSERT ON accounts WHEN NEW.active AND NEW.discoverable BEGIN
      UPDATE revisions SET value = value + 1 WHERE subject = 'listing';
      UPDATE accounts
      SET listing_revision = (SELECT value FROM revisions WHERE subject = 'listing'), was_listed = 1
      WHERE account = NEW.account;
    END;
    CREATE TRIGGER listed_anew AFTER UPDATE OF token, active, supports_sms, voice, discoverable ON accounts
    WHEN (OLD.active AND OLD.discoverable OR NEW.active AND NEW.discoverable)
      AND (OLD.token IS NOT NEW.token OR (OLD.active AND OLD.discoverable) IS NOT (NEW.active AND NEW.discoverable)
        OR OLD.supports_sms IS NOT NEW.supports_sms OR OLD.voice IS NOT NEW.voice)
    BEGIN
      UPDATE revisions SET value = value + 1 WHERE subject = 'listing';
      UPDATE accounts
      SET listing_revision = (SELECT value FROM revisions WHERE subject = 'listing'), was_listed = 1
      WHERE account = NEW.account;
    END;
    CREATE TRIGGER account_ended AFTER DELETE ON accounts WHEN OLD.was_listed BEGIN
      UPDATE revisions SET value = value + 1 WHERE subject = 'listing';
      INSERT INTO unlisted_tokens (token, listing_revision, ended)
      VALUES (
        OLD.token, (SELECT value FROM revisions WHERE subject = 'listing'),
        1000 * CAST(strftime('%s', 'now') AS INTEGER))
      ON CONFLICT (token) DO UPDATE SET listing_revision = excluded.listing_revision, ended = excluded.ended;
    END;
    CREATE TRIGGER relisted_first AFTER INSERT ON accounts WHEN NEW.active AND NEW.discoverable BEGIN
      DELETE FROM unlisted_tokens WHERE token = NEW.token;
    END;
    CREATE TRIGGER relisted_anew AFTER UPDATE OF token, active, discoverable ON accounts
    WHEN NEW.active AND NEW.discoverable BEGIN
      DELETE FROM unlisted_tokens WHERE token = NEW.token;
    END;

    CREATE TRIGGER account_added AFTER INSERT ON accounts BEGIN
      INSERT INTO directory_changes (token) VALUES (NEW.token);
    END;
    CREATE TRIGGER account_removed AFTER DELETE ON accounts BEGIN
      INSERT INTO directory_changes (token) VALUES (OLD.token);
    END;
    CREATE TRIGGER account_changed AFTER UPDATE OF token, active, supports_sms, voice, discoverable ON accounts
    WHEN (OLD.active AND OLD.discoverable OR NEW.active AND NEW.discoverable)
      AND (OLD.token IS NOT NEW.token OR (OLD.active AND OLD.discoverable) IS NOT (NEW.active AND NEW.discoverable)
        OR OLD.supports_sms IS NOT NEW.supports_sms OR OLD.voice IS NOT NEW.voice)
    BEGIN
      INSERT INTO directory_changes (token) VALUES (OLD.token);
      INSERT INTO directory_changes (token) SELECT NEW.token WHERE NEW.token IS NOT OLD.token;
    END;

    CREATE TRIGGER peer_changed AFTER UPDATE OF state, contacts_mode ON peers
    WHEN iif(OLD.state = 'active', OLD.contacts_mode, 'none') <> iif(NEW.state = 'active', NEW.contacts_mode, 'none')
    BEGIN
      INSERT INTO directory_changes (peer) VALUES (NEW.name);
    END;
    CREATE TRIGGER peer_removed AFTER DELETE ON peers BEGIN
      INSERT INTO directory_changes (peer) VALUES (OLD.name);
    END;
    CREATE TRIGGER peer_counted AFTER INSERT ON peers BEGIN
      INSERT INTO contact_counts (peer, contacts) VALUES (NEW.name, 0);
    END;

    CREATE TRIGGER contact_counted_more AFTER INSERT ON peer_contacts BEGIN
      UPDATE contact_counts SET contacts = contacts + 1, unlisted = unlisted + (NEW.unlisted IS NOT NULL)
      WHERE peer = NEW.peer;
    END;
    CREATE TRIGGER contact_counted_less AFTER DELETE ON peer_contacts BEGIN
      UPDATE contact_counts SET contacts = contacts - 1, unlisted = unlisted - (OLD.unlisted IS NOT NULL)
      WHERE peer = OLD.peer;
    END;
    CREATE TRIGGER contact_recounted AFTER UPDATE OF unlisted ON peer_contacts
    WHEN (OLD.unlisted IS NULL) IS NOT (NEW.unlisted IS NULL) BEGIN
      UPDATE contact_counts SET unlisted = unlisted + (NEW.unlisted IS NOT NULL) - (OLD.unlisted IS NOT NULL)
      WHERE peer = NEW.peer;
    END;
    CREATE TRIGGER contact_added AFTER INSERT ON peer_contacts BEGIN
      INSERT INTO directory_changes (token)
      SELECT NEW.token FROM peers
      WHERE name = NEW.peer AND state = 'active' AND (contacts_mode = 'copy' OR contacts_mode = 'query'
        AND EXISTS (SELECT 1 FROM peer_contacts WHERE token = NEW.token AND peer <> NEW.peer));
    END;
    CREATE TRIGGER contact_removed AFTER DELETE ON peer_contacts BEGIN
      INSERT INTO directory_changes (token)
      SELECT OLD.token
      WHERE EXISTS (SELECT 1 FROM peers WHERE name = OLD.peer AND state = 'active' AND contacts_mode = 'copy')
        OR EXISTS (SELECT 1 FROM peer_contacts WHERE token = OLD.token AND peer <> OLD.peer);
    END;
    CREATE TRIGGER contact_changed AFTER UPDATE OF supports_sms, voice, unlisted, since ON peer_contacts
    WHEN OLD.supports_sms IS NOT NEW.supports_sms OR OLD.voice IS NOT NEW.voice OR OLD.since IS NOT NEW.since
      OR (OLD.unlisted IS NULL) IS NOT (NEW.unlisted IS NULL)
    BEGIN
      INSERT INTO directory_changes (token)
      SELECT NEW.token FROM peers
      WHERE name = NEW.peer AND state = 'active'
        AND (contacts_mode = 'copy' OR contacts_mode = 'query' AND OLD.since IS NOT NEW.since);
    END;
    """
}
