// The tables of wake-ups by push (docs/waking.md).

/// Times are milliseconds by the database's clock. `wakes` has one row a device:
/// - `due` is when the row is looked at next: while it is claimed, the end of the claim; while it `rests`, when it is
///   forgotten;
/// - it is never sent before `not_before`, whoever asks;
/// - `claim` is NULL while nobody has it;
/// - `newest` is when it was asked for last, `requested` when it was asked for first;
/// - `covers` is the number of the newest message when it was claimed last: that wake-up was for all messages up to
///   it;
/// - a `forced` row is sent though the device is connected.
///
/// `wake_sweeps` says how far the sweep has come: all messages up to `swept` were looked at, those up to `ready` may
/// be, and those up to `bound` once the next sweep begins. `wake_providers.announced` is when a process last said that
/// it sends through a provider.
enum WakeSchema {
  static let postgres = [
    """
    CREATE TABLE wakes (
      account bigint NOT NULL,
      device integer NOT NULL,
      provider smallint NOT NULL,
      version bigint NOT NULL,
      rests boolean NOT NULL,
      requested bigint NOT NULL,
      newest bigint NOT NULL,
      due bigint NOT NULL,
      not_before bigint NOT NULL,
      expires bigint NOT NULL,
      attempts integer NOT NULL,
      follows_call boolean NOT NULL,
      test boolean NOT NULL,
      covers bigint NOT NULL DEFAULT 0,
      claim bigint,
      forced boolean NOT NULL DEFAULT false,
      PRIMARY KEY (account, device)
    )
    """,
    "CREATE INDEX wakes_by_due ON wakes (provider, due) WHERE NOT rests",
    "CREATE INDEX wakes_at_rest ON wakes (due) WHERE rests",
    """
    CREATE TABLE wake_history (
      account bigint NOT NULL,
      device integer NOT NULL,
      entry bigint GENERATED ALWAYS AS IDENTITY,
      asked bigint NOT NULL,
      claimed bigint NOT NULL,
      attempt integer NOT NULL,
      provider smallint,
      kind text,
      answer text,
      status integer,
      latency bigint,
      outcome text NOT NULL,
      test boolean NOT NULL,
      PRIMARY KEY (account, device, entry)
    )
    """,
    "CREATE INDEX wake_history_by_time ON wake_history (claimed)",
    // A device that is gone is not woken, and leaves no trace. All that change several rows lock them in the order of
    // their key, and so does this. Each statement names one account: in a distributed store it goes to one server, and
    // the table of gone rows is known to none of them.
    """
    CREATE FUNCTION relay_device_gone() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
      removed record;
    BEGIN
      FOR removed IN SELECT g.account, g.device FROM gone AS g ORDER BY g.account, g.device LOOP
        DELETE FROM wakes AS w WHERE w.account = removed.account AND w.device = removed.device;
        DELETE FROM wake_history AS w WHERE w.account = removed.account AND w.device = removed.device;
      END LOOP;
      RETURN NULL;
    END $$
    """,
    """
    CREATE TRIGGER relay_device_gone AFTER DELETE ON devices REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION relay_device_gone()
    """,
    """
    CREATE TABLE wake_sweeps (
      singleton boolean NOT NULL DEFAULT true CHECK (singleton),
      swept bigint NOT NULL,
      ready bigint NOT NULL,
      bound bigint NOT NULL,
      began bigint NOT NULL,
      PRIMARY KEY (singleton)
    )
    """,
    "INSERT INTO wake_sweeps (swept, ready, bound, began) VALUES (0, 0, 0, 0)",
    "CREATE TABLE wake_providers (provider smallint PRIMARY KEY, announced bigint NOT NULL)",
  ]

  static let embedded = """
    CREATE TABLE wakes (
      account INTEGER NOT NULL,
      device INTEGER NOT NULL,
      provider INTEGER NOT NULL,
      version INTEGER NOT NULL,
      rests INTEGER NOT NULL,
      requested INTEGER NOT NULL,
      newest INTEGER NOT NULL,
      due INTEGER NOT NULL,
      not_before INTEGER NOT NULL,
      expires INTEGER NOT NULL,
      attempts INTEGER NOT NULL,
      follows_call INTEGER NOT NULL,
      test INTEGER NOT NULL,
      covers INTEGER NOT NULL DEFAULT 0,
      claim INTEGER,
      forced INTEGER NOT NULL DEFAULT 0,
      PRIMARY KEY (account, device)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX wakes_by_due ON wakes (provider, due) WHERE NOT rests;
    CREATE INDEX wakes_at_rest ON wakes (due) WHERE rests;

    CREATE TABLE wake_history (
      entry INTEGER PRIMARY KEY AUTOINCREMENT,
      account INTEGER NOT NULL,
      device INTEGER NOT NULL,
      asked INTEGER NOT NULL,
      claimed INTEGER NOT NULL,
      attempt INTEGER NOT NULL,
      provider INTEGER,
      kind TEXT,
      answer TEXT,
      status INTEGER,
      latency INTEGER,
      outcome TEXT NOT NULL,
      test INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX wake_history_by_device ON wake_history (account, device, entry);
    CREATE INDEX wake_history_by_time ON wake_history (claimed);

    CREATE TRIGGER device_gone AFTER DELETE ON devices BEGIN
      DELETE FROM wakes WHERE account = OLD.account AND device = OLD.device;
      DELETE FROM wake_history WHERE account = OLD.account AND device = OLD.device;
    END;

    CREATE TABLE wake_sweeps (
      singleton INTEGER PRIMARY KEY CHECK (singleton = 1),
      swept INTEGER NOT NULL,
      ready INTEGER NOT NULL,
      bound INTEGER NOT NULL,
      began INTEGER NOT NULL
    ) STRICT;
    INSERT INTO wake_sweeps (singleton, swept, ready, bound, began) VALUES (1, 0, 0, 0, 0);

    CREATE TABLE wake_providers (provider INTEGER PRIMARY KEY, announced INTEGER NOT NULL);
    """
}
