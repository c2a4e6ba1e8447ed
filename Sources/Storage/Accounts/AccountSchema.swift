// The tables of accounts and their devices.

/// Every key of an account's row begins with its number, so that the tables can be distributed by it. Times are
/// milliseconds since 1970. A text that a client made up is `bytea`, and a BLOB in SQLite: it may hold any Unicode
/// text, and neither PostgreSQL's `text` nor SQLite's TEXT takes a NUL.
enum AccountSchema {
  static let postgres = [
    // Peers have seen an account that `was_listed`. `listing_revision` is 0 for one that they have not.
    // A number token holds while its second is above the floor; `number_token_drawn` is the newest that was drawn.
    """
    CREATE TABLE accounts (
      account bigint NOT NULL,
      token bytea NOT NULL,
      active boolean NOT NULL,
      supports_sms boolean NOT NULL,
      voice boolean NOT NULL,
      identity_key bytea,
      registration_lock_salt bytea,
      registration_lock_hash bytea,
      listing_revision bigint NOT NULL DEFAULT 0,
      discoverable boolean NOT NULL DEFAULT true,
      was_listed boolean NOT NULL DEFAULT false,
      number_token_floor bigint NOT NULL DEFAULT 0,
      number_token_drawn bigint NOT NULL DEFAULT 0,
      PRIMARY KEY (account)
    )
    """,
    "CREATE INDEX accounts_by_token ON accounts (token, account)",
    // A signed prekey stands with its device: it is drawn with the device's row and goes with it.
    """
    CREATE TABLE devices (
      account bigint NOT NULL,
      device integer NOT NULL,
      password_salt bytea NOT NULL,
      password_hash bytea NOT NULL,
      signaling_key bytea NOT NULL,
      registration_id integer NOT NULL,
      fetches_messages boolean NOT NULL,
      fcm_id bytea,
      apns_id bytea,
      voip_id bytea,
      web_push_id bytea,
      name bytea,
      user_agent bytea,
      has_signed_prekey boolean NOT NULL,
      last_seen bigint NOT NULL,
      created bigint NOT NULL,
      push_registered bigint,
      signed_prekey_id bigint,
      signed_prekey bytea,
      signed_prekey_signature bytea,
      PRIMARY KEY (account, device)
    )
    """,
    // `confirmed` is true only within the transaction of a registration.
    """
    CREATE TABLE verification_codes (
      account bigint NOT NULL,
      code bytea NOT NULL,
      expires bigint NOT NULL,
      tries integer NOT NULL,
      confirmed boolean NOT NULL DEFAULT false,
      PRIMARY KEY (account)
    )
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
    // A registration ends the linking code and the registration lock of the former owner.
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
    // `mark` is an HMAC (`PendingCodes.banMark`).
    "CREATE TABLE banned_numbers (mark bytea NOT NULL, banned bigint NOT NULL, PRIMARY KEY (mark))",
  ]

  static let embedded = """
    CREATE TABLE accounts (
      account INTEGER PRIMARY KEY,
      token BLOB NOT NULL,
      active INTEGER NOT NULL,
      supports_sms INTEGER NOT NULL,
      voice INTEGER NOT NULL,
      identity_key BLOB,
      registration_lock_salt BLOB,
      registration_lock_hash BLOB,
      listing_revision INTEGER NOT NULL DEFAULT 0,
      discoverable INTEGER NOT NULL DEFAULT 1,
      was_listed INTEGER NOT NULL DEFAULT 0,
      number_token_floor INTEGER NOT NULL DEFAULT 0,
      number_token_drawn INTEGER NOT NULL DEFAULT 0
    ) STRICT;
    CREATE INDEX accounts_by_token ON accounts (token, active, supports_sms, voice);

    CREATE TABLE devices (
      account INTEGER NOT NULL REFERENCES accounts (account),
      device INTEGER NOT NULL,
      password_salt BLOB NOT NULL,
      password_hash BLOB NOT NULL,
      signaling_key BLOB NOT NULL,
      registration_id INTEGER NOT NULL,
      fetches_messages INTEGER NOT NULL,
      fcm_id BLOB,
      apns_id BLOB,
      voip_id BLOB,
      web_push_id BLOB,
      name BLOB,
      user_agent BLOB,
      has_signed_prekey INTEGER NOT NULL,
      last_seen INTEGER NOT NULL,
      created INTEGER NOT NULL,
      push_registered INTEGER,
      signed_prekey_id INTEGER,
      signed_prekey BLOB,
      signed_prekey_signature BLOB,
      PRIMARY KEY (account, device)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE verification_codes (
      account INTEGER PRIMARY KEY,
      code BLOB NOT NULL,
      expires INTEGER NOT NULL,
      tries INTEGER NOT NULL
    ) STRICT;

    CREATE TABLE linking_codes (
      account INTEGER PRIMARY KEY,
      code BLOB NOT NULL,
      expires INTEGER NOT NULL,
      tries INTEGER NOT NULL
    ) STRICT;

    CREATE TABLE banned_numbers (
      mark BLOB PRIMARY KEY,
      banned INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    """
}
