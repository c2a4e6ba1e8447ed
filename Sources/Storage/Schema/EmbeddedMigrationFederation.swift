// The third step of the embedded schema: what peers are trusted with, what waits for them, and the feed of our listing.

extension EmbeddedMigration {
  // `contacts.since` is when the peer first listed the token, 0 where it did before this step. No peer goes while messages
  // wait for it. `outbox_charges` is the sum of a peer's rows: bounds are compared with one row.
  // `revoked_serials` is the serials' lower-case hex, ascending, with a space between them. Devices and registration ids of
  // `confirmed_devices` stand as `DEVICE:ID`, ascending, with a space between them. `listing_revision` is 0 for accounts whose
  // listing has not changed since this step. The generation of the listing is another number in a file that was made anew.
  static let trustedFederation = """
    ALTER TABLE peers ADD COLUMN holds_messages INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE peers ADD COLUMN contacts_mode TEXT NOT NULL DEFAULT 'copy';
    ALTER TABLE peers ADD COLUMN contacts_begun INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE peers ADD COLUMN next_ca_certificate BLOB;
    ALTER TABLE peers ADD COLUMN revoked_serials TEXT NOT NULL DEFAULT '';
    ALTER TABLE peers ADD COLUMN statement_sequence INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE peers ADD COLUMN fault TEXT;
    ALTER TABLE peers ADD COLUMN fault_since INTEGER;

    ALTER TABLE contacts ADD COLUMN since INTEGER NOT NULL DEFAULT 0;

    CREATE TABLE outbox (
      sequence INTEGER PRIMARY KEY AUTOINCREMENT,
      peer TEXT NOT NULL REFERENCES peers (name) ON DELETE RESTRICT,
      account INTEGER NOT NULL,
      device INTEGER NOT NULL,
      destination INTEGER NOT NULL,
      covers_master_only INTEGER NOT NULL,
      bundle BLOB NOT NULL,
      bytes INTEGER NOT NULL,
      fingerprint BLOB NOT NULL,
      accepted INTEGER NOT NULL,
      attempts INTEGER NOT NULL DEFAULT 0,
      not_before INTEGER NOT NULL
    ) STRICT;
    CREATE UNIQUE INDEX outbox_by_fingerprint ON outbox (peer, fingerprint);
    CREATE INDEX outbox_by_destination ON outbox (peer, destination);
    CREATE INDEX outbox_by_peer ON outbox (peer, sequence);
    CREATE INDEX outbox_by_due ON outbox (peer, not_before);

    CREATE TABLE outbox_charges (
      peer TEXT PRIMARY KEY REFERENCES peers (name) ON DELETE CASCADE,
      messages INTEGER NOT NULL,
      bytes INTEGER NOT NULL,
      retried INTEGER NOT NULL DEFAULT 0
    ) STRICT, WITHOUT ROWID;
    CREATE TRIGGER outbox_charged AFTER INSERT ON outbox BEGIN
      INSERT INTO outbox_charges (peer, messages, bytes) VALUES (NEW.peer, 1, NEW.bytes)
      ON CONFLICT (peer) DO UPDATE SET messages = messages + 1, bytes = bytes + excluded.bytes;
    END;
    CREATE TRIGGER outbox_released AFTER DELETE ON outbox BEGIN
      UPDATE outbox_charges SET messages = messages - 1, bytes = bytes - OLD.bytes WHERE peer = OLD.peer;
    END;

    CREATE TABLE confirmed_devices (
      account INTEGER NOT NULL,
      peer TEXT NOT NULL REFERENCES peers (name) ON DELETE CASCADE,
      devices TEXT NOT NULL,
      confirmed INTEGER NOT NULL,
      PRIMARY KEY (account, peer)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX confirmed_devices_by_time ON confirmed_devices (confirmed);

    CREATE TABLE leases (
      name TEXT PRIMARY KEY,
      holder INTEGER NOT NULL,
      expires INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;

    ALTER TABLE accounts ADD COLUMN listing_revision INTEGER NOT NULL DEFAULT 0;
    CREATE INDEX accounts_by_listing_revision ON accounts (listing_revision) WHERE listing_revision > 0;
    INSERT INTO revisions (subject, value)
    VALUES ('listing', 0), ('listing-generation', 1000 * CAST(strftime('%s', 'now') AS INTEGER));
    CREATE TRIGGER listed_first AFTER INSERT ON accounts BEGIN
      UPDATE revisions SET value = value + 1 WHERE subject = 'listing';
      UPDATE accounts SET listing_revision = (SELECT value FROM revisions WHERE subject = 'listing')
      WHERE number = NEW.number;
    END;
    CREATE TRIGGER listed_anew AFTER UPDATE OF token, active, supports_sms, voice ON accounts
    WHEN OLD.token IS NOT NEW.token OR OLD.active IS NOT NEW.active OR OLD.supports_sms IS NOT NEW.supports_sms
      OR OLD.voice IS NOT NEW.voice
    BEGIN
      UPDATE revisions SET value = value + 1 WHERE subject = 'listing';
      UPDATE accounts SET listing_revision = (SELECT value FROM revisions WHERE subject = 'listing')
      WHERE number = NEW.number;
    END;
    """
}
