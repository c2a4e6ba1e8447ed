// The seventh step of the embedded schema: device notifications (docs/device-notifications.md).

extension EmbeddedMigration {
  // One writer at a time: message numbers become visible in their order. Rows of `notification_recipients` stay when their
  // account goes, then without one: no number is given out twice. `events_pushed` is the last event that was sent to
  // `event_url`, or given up; `quota_mark` the period that `quota_used` counts. `claimed` is
  // the end of the claim of whoever makes a push; `recipients` counts them, so that there is a bound; `event_turn` is when
  // an event was last sent. Texts are BLOBs: SQLite's TEXT ends at a NUL.
  static let deviceNotifications = """
    CREATE TABLE notification_numbers (
      only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
      last INTEGER NOT NULL
    ) STRICT;
    INSERT INTO notification_numbers (only_row, last) VALUES (1, 0);

    CREATE TABLE notification_accounts (
      name TEXT PRIMARY KEY,
      password_salt BLOB NOT NULL,
      password_hash BLOB NOT NULL,
      permitted INTEGER NOT NULL,
      credits INTEGER CHECK (credits >= 0),
      quota INTEGER,
      quota_period TEXT,
      quota_mark INTEGER NOT NULL DEFAULT 0,
      quota_used INTEGER NOT NULL DEFAULT 0,
      event_url TEXT,
      event_method TEXT,
      events_pushed INTEGER NOT NULL DEFAULT 0,
      event_attempts INTEGER NOT NULL DEFAULT 0,
      event_due INTEGER NOT NULL DEFAULT 0,
      event_turn INTEGER NOT NULL DEFAULT 0,
      recipients INTEGER NOT NULL DEFAULT 0,
      created INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE notification_groups (
      account TEXT NOT NULL REFERENCES notification_accounts (name) ON DELETE CASCADE,
      name_key TEXT NOT NULL,
      name TEXT NOT NULL,
      short_key TEXT,
      short_name TEXT,
      PRIMARY KEY (account, name_key),
      UNIQUE (account, short_key)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE notification_members (
      account TEXT NOT NULL,
      group_key TEXT NOT NULL,
      recipient INTEGER NOT NULL,
      PRIMARY KEY (account, group_key, recipient),
      FOREIGN KEY (account, group_key) REFERENCES notification_groups (account, name_key) ON DELETE CASCADE
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE notification_recipients (
      number INTEGER PRIMARY KEY,
      account TEXT,
      provider TEXT NOT NULL,
      key TEXT NOT NULL,
      active INTEGER NOT NULL,
      created INTEGER NOT NULL,
      changed INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX notification_recipients_by_account ON notification_recipients (account);
    CREATE INDEX notification_recipients_by_key ON notification_recipients (key) WHERE active;

    CREATE TABLE notifications (
      number INTEGER PRIMARY KEY,
      account TEXT NOT NULL,
      sent INTEGER NOT NULL,
      text BLOB NOT NULL,
      waits_while_idle INTEGER NOT NULL,
      collapse_key BLOB,
      time_to_live INTEGER,
      package_name TEXT
    ) STRICT;
    CREATE INDEX notifications_by_time ON notifications (sent);
    CREATE INDEX notifications_by_account ON notifications (account, number);

    CREATE TABLE notification_addressees (
      recipient INTEGER NOT NULL,
      number INTEGER NOT NULL REFERENCES notifications (number) ON DELETE CASCADE,
      PRIMARY KEY (recipient, number)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX notification_addressees_by_number ON notification_addressees (number);

    CREATE TABLE notification_events (
      number INTEGER PRIMARY KEY,
      account TEXT NOT NULL,
      created INTEGER NOT NULL,
      action INTEGER NOT NULL,
      recipient INTEGER NOT NULL,
      ours INTEGER NOT NULL,
      subject BLOB NOT NULL
    ) STRICT;
    CREATE INDEX notification_events_by_account ON notification_events (account, number);
    CREATE INDEX notification_events_by_time ON notification_events (created);

    CREATE TABLE notification_jobs (
      id INTEGER PRIMARY KEY AUTOINCREMENT,
      service TEXT NOT NULL,
      number INTEGER NOT NULL REFERENCES notifications (number) ON DELETE CASCADE,
      recipient INTEGER NOT NULL,
      attempts INTEGER NOT NULL DEFAULT 0,
      queued INTEGER NOT NULL,
      due INTEGER NOT NULL,
      claimed INTEGER NOT NULL DEFAULT 0,
      expires INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX notification_jobs_by_due ON notification_jobs (service, due, id);
    CREATE INDEX notification_jobs_by_age ON notification_jobs (service, queued);
    CREATE INDEX notification_jobs_by_recipient ON notification_jobs (recipient);
    CREATE INDEX notification_jobs_by_number ON notification_jobs (number);
    CREATE INDEX notification_jobs_by_end ON notification_jobs (expires);
    """
}
