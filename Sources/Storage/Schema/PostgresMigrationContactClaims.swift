// The ninth step of the schema: a contact stays with the peer that listed it first (docs/federation.md, "Whose a contact is"),
// numbers that have an account here are no peer's, and accounts that were never listed are in no listing.

extension PostgresMigration {
  // A row of `peer_contacts` is a peer's claim. `unlisted` is NULL while the peer lists the contact; else the row is a
  // tombstone, and `unlisted` says since when, in milliseconds. What a peer said that is asked instead of copied is kept as a
  // tombstone too, which each answer renews.
  //
  // Builds of before go on working: they remove contacts without a tombstone, and what they list again over a tombstone
  // shows with the next reading of a build that knows tombstones.
  static let contactClaims =
    [
      "DO $$ BEGIN LOCK TABLE peers, peer_contacts IN SHARE ROW EXCLUSIVE MODE; END $$",
      // Peers have seen all accounts that there are.
      "ALTER TABLE accounts ADD COLUMN was_listed boolean NOT NULL DEFAULT true",
      "ALTER TABLE accounts ALTER COLUMN was_listed SET DEFAULT false",
      "CREATE INDEX accounts_listed ON accounts (token, account) WHERE was_listed",
      "CREATE INDEX accounts_hidden ON accounts (token) WHERE NOT (active AND discoverable)",
      "ALTER TABLE peer_contacts ADD COLUMN unlisted bigint",
      "CREATE INDEX peer_contacts_unlisted ON peer_contacts (peer, unlisted) WHERE unlisted IS NOT NULL",
      // Of `contacts`, which counts all claims, those that are tombstones.
      "ALTER TABLE contact_counts ADD COLUMN unlisted bigint NOT NULL DEFAULT 0",
      // How many contacts have passed from one peer to another, and how many of them were told to the operator.
      "INSERT INTO revisions (subject, value) VALUES ('contact-passes', 0), ('contact-passes-told', 0)",
    ] + listingTriggers + countTriggers + feedTriggers

  // An account that was never active and discoverable at a time has no revision, so that no reader of the feed meets it; nor
  // does one get another for what changes while it is hidden.
  private static let listingTriggers = [
    """
    CREATE OR REPLACE FUNCTION relay_listed() RETURNS trigger LANGUAGE plpgsql AS $$
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
    """
  ]

  private static let countTriggers = [
    """
    CREATE OR REPLACE FUNCTION relay_contacts_counted() RETURNS trigger LANGUAGE plpgsql AS $$
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
  ]

  private static let feedTriggers = [
    // An account covers a peer's claim whether or not it is found itself.
    "DROP TRIGGER relay_account_added ON accounts",
    """
    CREATE TRIGGER relay_account_added AFTER INSERT ON accounts FOR EACH ROW EXECUTE FUNCTION relay_account_changed()
    """,
    "DROP TRIGGER relay_account_removed ON accounts",
    """
    CREATE TRIGGER relay_account_removed AFTER DELETE ON accounts FOR EACH ROW EXECUTE FUNCTION relay_account_changed()
    """,
    // Claims of a peer that is asked cover those of copied ones.
    "DROP TRIGGER relay_peer_changed ON peers",
    """
    CREATE TRIGGER relay_peer_changed AFTER UPDATE OF state, contacts_mode ON peers FOR EACH ROW
    WHEN (CASE WHEN OLD.state = 'active' THEN OLD.contacts_mode ELSE 'none' END
      <> CASE WHEN NEW.state = 'active' THEN NEW.contacts_mode ELSE 'none' END)
    EXECUTE FUNCTION relay_peer_changed()
    """,
    // A claim that ends may uncover another peer's, whatever became of its own peer.
    """
    CREATE OR REPLACE FUNCTION relay_contacts_changed() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      INSERT INTO directory_changes (token)
      SELECT c.token FROM changed AS c
      WHERE (SELECT p.state = 'active' AND p.contacts_mode = 'copy' FROM peers AS p WHERE p.name = c.peer)
        OR TG_OP = 'DELETE' AND EXISTS (SELECT FROM peer_contacts AS e WHERE e.token = c.token AND e.peer <> c.peer);
      RETURN NULL;
    END $$
    """,
    """
    CREATE OR REPLACE FUNCTION relay_contact_changed() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      INSERT INTO directory_changes (token)
      SELECT NEW.token FROM peers AS p
      WHERE p.name = NEW.peer AND p.state = 'active'
        AND (p.contacts_mode = 'copy' OR p.contacts_mode = 'query' AND OLD.since <> NEW.since);
      RETURN NULL;
    END $$
    """,
    "DROP TRIGGER relay_contact_changed ON peer_contacts",
    """
    CREATE TRIGGER relay_contact_changed AFTER UPDATE OF supports_sms, voice, unlisted, since ON peer_contacts FOR EACH ROW
    WHEN ((OLD.supports_sms, OLD.voice, OLD.unlisted IS NULL, OLD.since)
      IS DISTINCT FROM (NEW.supports_sms, NEW.voice, NEW.unlisted IS NULL, NEW.since))
    EXECUTE FUNCTION relay_contact_changed()
    """,
    // The directory: ours first, else that of the peer whose claim stands for longest, while it lists the token. Who has an
    // account here is no peer's, though it is not found.
    """
    CREATE OR REPLACE VIEW directory_entries AS
    SELECT a.token, NULL::text COLLATE "C" AS peer, a.supports_sms, a.voice
    FROM accounts AS a WHERE a.active AND a.discoverable
    UNION ALL
    SELECT c.token, c.peer, c.supports_sms, c.voice
    FROM peer_contacts AS c
    WHERE c.unlisted IS NULL
      AND (SELECT p.state = 'active' AND p.contacts_mode = 'copy' FROM peers AS p WHERE p.name = c.peer)
      AND NOT EXISTS (SELECT FROM accounts AS o WHERE o.token = c.token)
      AND NOT EXISTS (
        SELECT FROM peer_contacts AS e
        WHERE e.token = c.token AND (e.since, e.peer) < (c.since, c.peer)
          AND (SELECT q.state = 'active' AND q.contacts_mode <> 'none' FROM peers AS q WHERE q.name = e.peer))
    """,
  ]
}
