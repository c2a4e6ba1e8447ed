// The third step of the schema: what peers are trusted with, what waits for them, and the feed of our listing.

extension PostgresMigration {
  // Builds of the second step go on working: they name their columns, and what they write to accounts reaches the feed by
  // a trigger. What belongs to a peer is keyed by the peer; what it confirmed of an account, by the account.
  static let trustedFederation = [
    // The accounts before the peers, as a registration takes them.
    // 0 for accounts whose listing has not changed since this step: who begins to follow reads the whole listing first.
    "ALTER TABLE accounts ADD COLUMN listing_revision bigint NOT NULL DEFAULT 0",
    """
    ALTER TABLE peers ADD COLUMN holds_messages boolean NOT NULL DEFAULT false,
      ADD COLUMN contacts_mode text NOT NULL DEFAULT 'copy', ADD COLUMN next_ca_certificate bytea,
      ADD COLUMN revoked_serials bytea[] NOT NULL DEFAULT '{}', ADD COLUMN statement_sequence bigint NOT NULL DEFAULT 0,
      ADD COLUMN fault text, ADD COLUMN fault_since bigint,
      ADD COLUMN contacts_begun bigint NOT NULL DEFAULT 0
    """,
    // Who has listed a contact for longest comes first. Of those that were there before this step it is not known; what is
    // added from now on has its time from the default, whichever build adds it, and no refreshing changes it.
    "ALTER TABLE peer_contacts ADD COLUMN since bigint NOT NULL DEFAULT 0",
    """
    ALTER TABLE peer_contacts
      ALTER COLUMN since SET DEFAULT floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint
    """,
    "CREATE SEQUENCE outbox_sequence",
    // `bundle` is the submission as it goes to the peer; `bytes` counts what the sender wrote. The fingerprint tells a
    // repeated submission.
    """
    CREATE TABLE outbox (
      peer text COLLATE "C" NOT NULL,
      sequence bigint NOT NULL DEFAULT nextval('outbox_sequence'),
      account bigint NOT NULL,
      device integer NOT NULL,
      destination bigint NOT NULL,
      covers_master_only boolean NOT NULL,
      bundle bytea NOT NULL,
      bytes bigint NOT NULL,
      fingerprint uuid NOT NULL,
      accepted bigint NOT NULL,
      attempts integer NOT NULL DEFAULT 0,
      not_before bigint NOT NULL,
      PRIMARY KEY (peer, sequence),
      UNIQUE (peer, fingerprint)
    )
    """,
    "CREATE INDEX outbox_by_destination ON outbox (peer, destination)",
    "CREATE UNIQUE INDEX outbox_by_sequence ON outbox (sequence)",
    "CREATE INDEX outbox_by_due ON outbox (peer, not_before)",
    // The sum of a peer's rows: bounds are compared with one row, which also keeps the rows in the order of commits.
    """
    CREATE TABLE outbox_charges (
      peer text COLLATE "C" NOT NULL,
      messages bigint NOT NULL,
      bytes bigint NOT NULL,
      retried bigint NOT NULL DEFAULT 0,
      PRIMARY KEY (peer)
    )
    """,
    """
    CREATE TABLE confirmed_devices (
      account bigint NOT NULL,
      peer text COLLATE "C" NOT NULL,
      devices integer[] NOT NULL,
      registration_ids bigint[] NOT NULL,
      confirmed bigint NOT NULL,
      PRIMARY KEY (account, peer)
    )
    """,
    "CREATE INDEX confirmed_devices_by_time ON confirmed_devices (confirmed)",
    "CREATE INDEX confirmed_devices_by_peer ON confirmed_devices (peer)",
    """
    CREATE TABLE leases (
      name text COLLATE "C" NOT NULL,
      holder bigint NOT NULL,
      expires timestamptz NOT NULL,
      PRIMARY KEY (name)
    )
    """,
    "CREATE INDEX accounts_by_listing_revision ON accounts (listing_revision) WHERE listing_revision > 0",
    // The generation is another number in a database that was made anew.
    """
    INSERT INTO revisions (subject, value)
    VALUES ('listing', 0), ('listing-generation', floor(extract(epoch FROM now()) * 1000)::bigint)
    """,
    // The row of the revision is locked until the commit, so that revisions rise in the order of commits. Always behind the
    // other one, which a registration raises before it writes the account and a change of a device afterwards: of two that
    // took them in different orders, each would wait for the other. An INSERT that meets the account becomes an UPDATE.
    """
    CREATE FUNCTION relay_listed() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      IF TG_OP = 'INSERT' AND EXISTS (SELECT FROM accounts WHERE account = NEW.account) THEN
        RETURN NEW;
      END IF;
      PERFORM FROM revisions WHERE subject = 'accounts' FOR UPDATE;
      UPDATE revisions SET value = value + 1 WHERE subject = 'listing' RETURNING value INTO NEW.listing_revision;
      RETURN NEW;
    END $$
    """,
    """
    CREATE TRIGGER relay_listed_first BEFORE INSERT ON accounts FOR EACH ROW EXECUTE FUNCTION relay_listed()
    """,
    """
    CREATE TRIGGER relay_listed_anew BEFORE UPDATE OF token, active, supports_sms, voice ON accounts FOR EACH ROW
    WHEN ((OLD.token, OLD.active, OLD.supports_sms, OLD.voice)
      IS DISTINCT FROM (NEW.token, NEW.active, NEW.supports_sms, NEW.voice))
    EXECUTE FUNCTION relay_listed()
    """,
  ]
}
