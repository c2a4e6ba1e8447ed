// The second step of the schema: what the whole client API needs beyond registration, first prekeys and messages.

extension PostgresMigration {
  // Builds of the first step go on working: what is new in their tables may be missing, and they name their columns.
  // A signed prekey stands with its device: it is drawn with the device's row and goes with it.
  static let clientAPI = [
    "ALTER TABLE accounts ADD COLUMN registration_lock_salt bytea, ADD COLUMN registration_lock_hash bytea",
    """
    ALTER TABLE devices ADD COLUMN push_registered bigint, ADD COLUMN signed_prekey_id bigint,
      ADD COLUMN signed_prekey bytea, ADD COLUMN signed_prekey_signature bytea
    """,
    // `device` is set only within the transaction of a link: the id that it gives out.
    """
    CREATE TABLE linking_codes (
      account bigint NOT NULL,
      code bytea NOT NULL,
      expires bigint NOT NULL,
      tries integer NOT NULL,
      device integer,
      PRIMARY KEY (account)
    )
    """,
    // Whoever registers begins without a linking code and a lock of the former owner. Builds of the first step know
    // neither: what they write tells.
    """
    CREATE FUNCTION relay_registered() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      DELETE FROM linking_codes WHERE account = NEW.account;
      UPDATE accounts SET registration_lock_salt = NULL, registration_lock_hash = NULL
      WHERE account = NEW.account AND registration_lock_hash IS NOT NULL;
      RETURN NULL;
    END $$
    """,
    """
    CREATE TRIGGER relay_registered AFTER INSERT ON devices FOR EACH ROW WHEN (NEW.device = 1)
    EXECUTE FUNCTION relay_registered()
    """,
    // Both NULL where nobody may be told that the message was received: it was a receipt itself.
    "ALTER TABLE acknowledged ADD COLUMN source bigint, ADD COLUMN sent bigint",
    "ALTER TABLE peers ADD COLUMN witnessed_epoch bigint NOT NULL DEFAULT 0",
    // Whoever knows the id may ask: that is the key. `bytes` is NULL until the upload is complete; `charge` is what the
    // row counts among its account's.
    """
    CREATE TABLE attachments (
      id bigint NOT NULL,
      account bigint NOT NULL,
      bytes bigint,
      charge bigint NOT NULL,
      expires bigint NOT NULL,
      PRIMARY KEY (id)
    )
    """,
    "CREATE INDEX attachments_by_expiry ON attachments (expires)",
    // The sum of an account's charges: a quota is compared with one row, however many attachments there are.
    """
    CREATE TABLE attachment_charges (
      account bigint NOT NULL,
      total bigint NOT NULL,
      PRIMARY KEY (account)
    )
    """,
    """
    CREATE TABLE epochs (
      singleton boolean NOT NULL DEFAULT true CHECK (singleton),
      value bigint NOT NULL,
      PRIMARY KEY (singleton)
    )
    """,
    "INSERT INTO epochs (value) VALUES (0)",
    """
    CREATE TABLE server_secrets (
      name text COLLATE "C" NOT NULL,
      secret bytea NOT NULL,
      PRIMARY KEY (name)
    )
    """,
  ]
}
