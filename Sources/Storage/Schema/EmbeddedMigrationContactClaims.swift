// The ninth step of the embedded schema: a contact stays with the peer that listed it first (docs/federation.md, "Whose a
// contact is"), numbers that have an account here are no peer's, and accounts that were never listed are in no listing.

extension EmbeddedMigration {
  // A row of `contacts` is a peer's claim. `unlisted` is NULL while the peer lists the contact; else the row is a tombstone,
  // and `unlisted` says since when. What a peer said that is asked instead of copied is kept as a tombstone too, which each
  // answer renews. Of `contact_counts.contacts`, which counts all claims, `unlisted` are tombstones.
  //
  // An account that was never active and discoverable at a time has no listing revision. Peers have seen all accounts that
  // there are before this step.
  static let contactClaims = """
    ALTER TABLE accounts ADD COLUMN was_listed INTEGER NOT NULL DEFAULT 0;
    UPDATE accounts SET was_listed = 1;
    CREATE INDEX accounts_listed ON accounts (token, number) WHERE was_listed;
    ALTER TABLE contacts ADD COLUMN unlisted INTEGER;
    CREATE INDEX contacts_unlisted ON contacts (peer, unlisted) WHERE unlisted IS NOT NULL;
    ALTER TABLE contact_counts ADD COLUMN unlisted INTEGER NOT NULL DEFAULT 0;
    INSERT INTO revisions (subject, value) VALUES ('contact-passes', 0), ('contact-passes-told', 0);

    DROP TRIGGER listed_first;
    CREATE TRIGGER listed_first AFTER INSERT ON accounts WHEN NEW.active AND NEW.discoverable BEGIN
      UPDATE revisions SET value = value + 1 WHERE subject = 'listing';
      UPDATE accounts
      SET listing_revision = (SELECT value FROM revisions WHERE subject = 'listing'), was_listed = 1
      WHERE number = NEW.number;
    END;
    DROP TRIGGER listed_anew;
    CREATE TRIGGER listed_anew AFTER UPDATE OF token, active, supports_sms, voice, discoverable ON accounts
    WHEN (OLD.active AND OLD.discoverable OR NEW.active AND NEW.discoverable)
      AND (OLD.token IS NOT NEW.token OR (OLD.active AND OLD.discoverable) IS NOT (NEW.active AND NEW.discoverable)
        OR OLD.supports_sms IS NOT NEW.supports_sms OR OLD.voice IS NOT NEW.voice)
    BEGIN
      UPDATE revisions SET value = value + 1 WHERE subject = 'listing';
      UPDATE accounts
      SET listing_revision = (SELECT value FROM revisions WHERE subject = 'listing'), was_listed = 1
      WHERE number = NEW.number;
    END;

    DROP TRIGGER account_added;
    CREATE TRIGGER account_added AFTER INSERT ON accounts BEGIN
      INSERT INTO directory_changes (token) VALUES (NEW.token);
    END;
    DROP TRIGGER account_removed;
    CREATE TRIGGER account_removed AFTER DELETE ON accounts BEGIN
      INSERT INTO directory_changes (token) VALUES (OLD.token);
    END;

    DROP TRIGGER contact_counted_more;
    CREATE TRIGGER contact_counted_more AFTER INSERT ON contacts BEGIN
      UPDATE contact_counts SET contacts = contacts + 1, unlisted = unlisted + (NEW.unlisted IS NOT NULL)
      WHERE peer = NEW.peer;
    END;
    DROP TRIGGER contact_counted_less;
    CREATE TRIGGER contact_counted_less AFTER DELETE ON contacts BEGIN
      UPDATE contact_counts SET contacts = contacts - 1, unlisted = unlisted - (OLD.unlisted IS NOT NULL)
      WHERE peer = OLD.peer;
    END;
    CREATE TRIGGER contact_recounted AFTER UPDATE OF unlisted ON contacts
    WHEN (OLD.unlisted IS NULL) IS NOT (NEW.unlisted IS NULL) BEGIN
      UPDATE contact_counts SET unlisted = unlisted + (NEW.unlisted IS NOT NULL) - (OLD.unlisted IS NOT NULL)
      WHERE peer = NEW.peer;
    END;

    DROP TRIGGER peer_changed;
    CREATE TRIGGER peer_changed AFTER UPDATE OF state, contacts_mode ON peers
    WHEN iif(OLD.state = 'active', OLD.contacts_mode, 'none') <> iif(NEW.state = 'active', NEW.contacts_mode, 'none')
    BEGIN
      INSERT INTO directory_changes (peer) VALUES (NEW.name);
    END;

    DROP TRIGGER contact_removed;
    CREATE TRIGGER contact_removed AFTER DELETE ON contacts BEGIN
      INSERT INTO directory_changes (token)
      SELECT OLD.token
      WHERE EXISTS (SELECT 1 FROM peers WHERE name = OLD.peer AND state = 'active' AND contacts_mode = 'copy')
        OR EXISTS (SELECT 1 FROM contacts WHERE token = OLD.token AND peer <> OLD.peer);
    END;
    DROP TRIGGER contact_changed;
    CREATE TRIGGER contact_changed AFTER UPDATE OF supports_sms, voice, unlisted, since ON contacts
    WHEN OLD.supports_sms IS NOT NEW.supports_sms OR OLD.voice IS NOT NEW.voice OR OLD.since IS NOT NEW.since
      OR (OLD.unlisted IS NULL) IS NOT (NEW.unlisted IS NULL)
    BEGIN
      INSERT INTO directory_changes (token)
      SELECT NEW.token FROM peers
      WHERE name = NEW.peer AND state = 'active'
        AND (contacts_mode = 'copy' OR contacts_mode = 'query' AND OLD.since IS NOT NEW.since);
    END;

    DROP VIEW directory_entries;
    CREATE VIEW directory_entries AS
    SELECT a.token, NULL AS peer, a.supports_sms, a.voice FROM accounts AS a WHERE a.active AND a.discoverable
    UNION ALL
    SELECT c.token, c.peer, c.supports_sms, c.voice FROM contacts AS c JOIN peers AS p ON p.name = c.peer
    WHERE c.unlisted IS NULL AND p.state = 'active' AND p.contacts_mode = 'copy'
      AND NOT EXISTS (SELECT 1 FROM accounts AS o WHERE o.token = c.token)
      AND NOT EXISTS (
        SELECT 1 FROM contacts AS e JOIN peers AS q ON q.name = e.peer
        WHERE e.token = c.token AND q.state = 'active' AND q.contacts_mode <> 'none'
          AND (e.since, e.peer) < (c.since, c.peer));
    """
}
