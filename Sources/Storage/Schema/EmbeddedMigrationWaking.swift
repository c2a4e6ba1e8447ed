// The sixth step of the embedded schema: devices that are to be woken by push, and what became of it (docs/waking.md).

extension EmbeddedMigration {
  // As PostgreSQL's (`PostgresMigration.waking`). The sweep finds messages by their primary key.
  static let waking = """
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
      DELETE FROM wakes WHERE account = OLD.account AND device = OLD.id;
      DELETE FROM wake_history WHERE account = OLD.account AND device = OLD.id;
    END;

    CREATE TABLE wake_sweeps (
      only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
      swept INTEGER NOT NULL,
      ready INTEGER NOT NULL,
      bound INTEGER NOT NULL,
      began INTEGER NOT NULL
    ) STRICT;
    INSERT INTO wake_sweeps (only_row, swept, ready, bound, began)
    SELECT 1, s.last, s.last, s.last, 0
    FROM (SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'messages'), 0) AS last) AS s;
    """
}
