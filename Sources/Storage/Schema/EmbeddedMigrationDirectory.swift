// The fourth step of the embedded schema: who wants to be found, and the feed by which the process keeps the whole directory
// in memory (docs/directory.md).

extension EmbeddedMigration {
  // Writers take turns: the order of the ids is that of the commits. A change names a token, or a peer, and not its state.
  // What nobody finds before or after is no change; contacts of peers that are not active, or not copied, are no part of
  // the directory. Peers read accounts that do not want to be found as inactive.
  static let directoryFeed = """
    ALTER TABLE accounts ADD COLUMN discoverable INTEGER NOT NULL DEFAULT 1;

    CREATE TABLE directory_changes (
      id INTEGER PRIMARY KEY AUTOINCREMENT,
      at INTEGER NOT NULL DEFAULT (1000 * CAST(strftime('%s', 'now') AS INTEGER)),
      token BLOB,
      peer TEXT
    ) STRICT;
    INSERT INTO revisions (subject, value) VALUES ('directory-pruned', 0);

    DROP TRIGGER listed_anew;
    CREATE TRIGGER listed_anew AFTER UPDATE OF token, active, supports_sms, voice, discoverable ON accounts
    WHEN OLD.token IS NOT NEW.token OR (OLD.active AND OLD.discoverable) IS NOT (NEW.active AND NEW.discoverable)
      OR OLD.supports_sms IS NOT NEW.supports_sms OR OLD.voice IS NOT NEW.voice
    BEGIN
      UPDATE revisions SET value = value + 1 WHERE subject = 'listing';
      UPDATE accounts SET listing_revision = (SELECT value FROM revisions WHERE subject = 'listing')
      WHERE number = NEW.number;
    END;

    CREATE TRIGGER account_added AFTER INSERT ON accounts WHEN NEW.active AND NEW.discoverable BEGIN
      INSERT INTO directory_changes (token) VALUES (NEW.token);
    END;
    CREATE TRIGGER account_removed AFTER DELETE ON accounts WHEN OLD.active AND OLD.discoverable BEGIN
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
    WHEN (OLD.state = 'active' AND OLD.contacts_mode = 'copy') IS NOT (NEW.state = 'active' AND NEW.contacts_mode = 'copy')
    BEGIN
      INSERT INTO directory_changes (peer) VALUES (NEW.name);
    END;
    CREATE TRIGGER peer_removed AFTER DELETE ON peers BEGIN
      INSERT INTO directory_changes (peer) VALUES (OLD.name);
    END;

    CREATE TRIGGER contact_added AFTER INSERT ON contacts BEGIN
      INSERT INTO directory_changes (token)
      SELECT NEW.token FROM peers WHERE name = NEW.peer AND state = 'active' AND contacts_mode = 'copy';
    END;
    CREATE TRIGGER contact_removed AFTER DELETE ON contacts BEGIN
      INSERT INTO directory_changes (token)
      SELECT OLD.token FROM peers WHERE name = OLD.peer AND state = 'active' AND contacts_mode = 'copy';
    END;
    CREATE TRIGGER contact_changed AFTER UPDATE OF supports_sms, voice ON contacts
    WHEN OLD.supports_sms IS NOT NEW.supports_sms OR OLD.voice IS NOT NEW.voice
    BEGIN
      INSERT INTO directory_changes (token)
      SELECT NEW.token FROM peers WHERE name = NEW.peer AND state = 'active' AND contacts_mode = 'copy';
    END;

    CREATE VIEW directory_entries AS
    SELECT a.token, NULL AS peer, a.supports_sms, a.voice FROM accounts AS a WHERE a.active AND a.discoverable
    UNION ALL
    SELECT c.token, c.peer, c.supports_sms, c.voice FROM contacts AS c JOIN peers AS p ON p.name = c.peer
    WHERE p.state = 'active' AND p.contacts_mode = 'copy'
      AND NOT EXISTS (SELECT 1 FROM accounts AS o WHERE o.token = c.token AND o.active AND o.discoverable)
      AND NOT EXISTS (
        SELECT 1 FROM contacts AS e JOIN peers AS q ON q.name = e.peer
        WHERE e.token = c.token AND q.state = 'active' AND q.contacts_mode = 'copy'
          AND (e.since, e.peer) < (c.since, c.peer));
    """
}
