// The sixteenth step of the schema: accounts that are deleted, and numbers that may have none.

extension PostgresMigration {
  // Builds of before go on working: they delete no account, and register banned numbers.
  static let accountRemovals = [
    // `mark` is an HMAC (`PendingCodes.banMark`).
    "CREATE TABLE banned_numbers (mark bytea NOT NULL, banned bigint NOT NULL, PRIMARY KEY (mark))",
    // Tokens of deleted accounts, which peers have listed: they stand in the feed as inactive until `ended` is long ago.
    """
    CREATE TABLE unlisted_tokens (
      token bytea NOT NULL,
      listing_revision bigint NOT NULL,
      ended bigint NOT NULL,
      PRIMARY KEY (token)
    )
    """,
    "CREATE INDEX unlisted_tokens_by_revision ON unlisted_tokens (listing_revision)",
    // Places in the feed before it mean nothing: what was there was forgotten.
    "INSERT INTO revisions (subject, value) VALUES ('listing-pruned', 0)",
    // The rows of the revisions as `relay_listed` takes them.
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
    // Listed again, the account itself stands in the feed, and none has its token twice.
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
  ]
}
