// The sixteenth step of the embedded schema: accounts that are deleted, and numbers that may have none.

extension EmbeddedMigration {
  // `mark` is an HMAC (`PendingCodes.banMark`). Tokens of deleted accounts, which peers have listed, stand in the feed as
  // inactive until `ended` is long ago; listed again, the account itself stands there. Places in the feed before
  // `listing-pruned` mean nothing: what was there was forgotten.
  static let accountRemovals = """
    CREATE TABLE banned_numbers (
      mark BLOB PRIMARY KEY,
      banned INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE unlisted_tokens (
      token BLOB PRIMARY KEY,
      listing_revision INTEGER NOT NULL,
      ended INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX unlisted_tokens_by_revision ON unlisted_tokens (listing_revision);
    INSERT INTO revisions (subject, value) VALUES ('listing-pruned', 0);

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
    """
}
