// The tables of device notifications (docs/device-notifications.md).

/// Texts are `bytea`, and BLOBs in SQLite (`AccountSchema`). SQLite has one writer at a time: message numbers become
/// visible in their order there without more.
enum NotificationSchema {
  static let postgres = [
    // The last message number that was given out. A transaction that takes one holds the row to its end: so numbers
    // become visible in their order.
    """
    CREATE TABLE notification_numbers (
      singleton boolean NOT NULL DEFAULT true CHECK (singleton),
      last bigint NOT NULL,
      PRIMARY KEY (singleton)
    )
    """,
    "INSERT INTO notification_numbers (last) VALUES (0)",
    // `quota_mark` is the period that `quota_used` counts. `events_pushed` is the last event that was sent to
    // `event_url`, or given up; the next one is due at `event_due`, and `event_turn` is when the last one was.
    // `recipients` counts them, so that there is a bound.
    """
    CREATE TABLE notification_accounts (
      name text COLLATE "C" NOT NULL,
      password_salt bytea NOT NULL,
      password_hash bytea NOT NULL,
      permitted boolean NOT NULL,
      credits bigint CHECK (credits >= 0),
      quota bigint,
      quota_period text,
      quota_mark bigint NOT NULL DEFAULT 0,
      quota_used bigint NOT NULL DEFAULT 0,
      event_url text,
      event_method text,
      events_pushed bigint NOT NULL DEFAULT 0,
      event_attempts integer NOT NULL DEFAULT 0,
      event_due bigint NOT NULL DEFAULT 0,
      event_turn bigint NOT NULL DEFAULT 0,
      recipients bigint NOT NULL DEFAULT 0,
      created bigint NOT NULL,
      PRIMARY KEY (name)
    )
    """,
    // The keys are the names in lower case.
    """
    CREATE TABLE notification_groups (
      account text COLLATE "C" NOT NULL REFERENCES notification_accounts (name) ON DELETE CASCADE,
      name_key text COLLATE "C" NOT NULL,
      name text NOT NULL,
      short_key text COLLATE "C",
      short_name text,
      PRIMARY KEY (account, name_key),
      UNIQUE (account, short_key)
    )
    """,
    """
    CREATE TABLE notification_members (
      account text COLLATE "C" NOT NULL,
      group_key text COLLATE "C" NOT NULL,
      recipient bigint NOT NULL,
      PRIMARY KEY (account, group_key, recipient),
      FOREIGN KEY (account, group_key) REFERENCES notification_groups (account, name_key) ON DELETE CASCADE
    )
    """,
    // Rows stay when their account goes, then without one: no number is given out twice.
    """
    CREATE TABLE notification_recipients (
      number bigint NOT NULL,
      account text COLLATE "C",
      provider text NOT NULL,
      key text NOT NULL,
      active boolean NOT NULL,
      created bigint NOT NULL,
      changed bigint NOT NULL,
      PRIMARY KEY (number)
    )
    """,
    "CREATE INDEX notification_recipients_by_account ON notification_recipients (account)",
    // By it other recipients of a key are found. Keys may be longer than what a B-tree takes.
    "CREATE INDEX notification_recipients_by_key ON notification_recipients USING hash (key) WHERE active",
    """
    CREATE TABLE notifications (
      number bigint NOT NULL,
      account text COLLATE "C" NOT NULL,
      sent bigint NOT NULL,
      text bytea NOT NULL,
      waits_while_idle boolean NOT NULL,
      collapse_key bytea,
      time_to_live bigint,
      package_name text,
      PRIMARY KEY (number)
    )
    """,
    "CREATE INDEX notifications_by_time ON notifications (sent)",
    "CREATE INDEX notifications_by_account ON notifications (account, number)",
    """
    CREATE TABLE notification_addressees (
      recipient bigint NOT NULL,
      number bigint NOT NULL REFERENCES notifications (number) ON DELETE CASCADE,
      PRIMARY KEY (recipient, number)
    )
    """,
    "CREATE INDEX notification_addressees_by_number ON notification_addressees (number)",
    // `ours`: the provider said that the key is dead; no app asked for it.
    """
    CREATE TABLE notification_events (
      number bigint NOT NULL,
      account text COLLATE "C" NOT NULL,
      created bigint NOT NULL,
      action smallint NOT NULL,
      recipient bigint NOT NULL,
      ours boolean NOT NULL,
      subject bytea NOT NULL,
      PRIMARY KEY (account, number)
    )
    """,
    "CREATE INDEX notification_events_by_time ON notification_events (created)",
    // Pushes that are to be made, or tried again. `claimed` is the end of the claim of the process that makes it, in
    // milliseconds of the database's clock: the clocks of several processes may differ.
    """
    CREATE TABLE notification_jobs (
      id bigint GENERATED ALWAYS AS IDENTITY,
      service text COLLATE "C" NOT NULL,
      number bigint NOT NULL REFERENCES notifications (number) ON DELETE CASCADE,
      recipient bigint NOT NULL,
      attempts integer NOT NULL DEFAULT 0,
      queued bigint NOT NULL,
      due bigint NOT NULL,
      claimed bigint NOT NULL DEFAULT 0,
      expires bigint NOT NULL,
      PRIMARY KEY (id)
    )
    """,
    "CREATE INDEX notification_jobs_by_due ON notification_jobs (service, due, id)",
    "CREATE INDEX notification_jobs_by_age ON notification_jobs (service, queued)",
    "CREATE INDEX notification_jobs_by_recipient ON notification_jobs (recipient)",
    "CREATE INDEX notification_jobs_by_number ON notification_jobs (number)",
    "CREATE INDEX notification_jobs_by_end ON notification_jobs (expires)",
  ]

  static let embedded = """
    CREATE TABLE notification_numbers (
      singleton INTEGER PRIMARY KEY CHECK (singleton = 1),
      last INTEGER NOT NULL
    ) STRICT;
    INSERT INTO notification_numbers (singleton, last) VALUES (1, 0);

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
