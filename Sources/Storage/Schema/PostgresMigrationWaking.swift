// The sixth step of the schema: devices that are to be woken by push, and what became of it (docs/waking.md).

extension PostgresMigration {
  // Builds of the fifth step go on working: they wake nobody. Times are milliseconds by the database's clock.
  static let waking = [
    // One row a device. `due` is when the row is next to be looked at: while it is claimed the end of the claim, while it
    // `rests` when it is forgotten. It is never sent before `not_before`, whoever asks. `claim` is NULL while nobody
    // has it. `newest` is when it was last asked for, `requested` when it was first. `covers` is the number of the newest
    // message when it was last claimed: who was woken then has been woken for those up to it.
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
    // Who is gone is not woken, and leaves no trace, whatever build removes the device. As all who change several rows it
    // locks them in the order of their key.
    """
    CREATE FUNCTION relay_device_gone() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      DELETE FROM wakes AS w USING (
        SELECT account, device FROM wakes WHERE (account, device) IN (SELECT account, device FROM gone)
        ORDER BY account, device FOR UPDATE
      ) AS l
      WHERE w.account = l.account AND w.device = l.device;
      DELETE FROM wake_history WHERE (account, device) IN (SELECT account, device FROM gone);
      RETURN NULL;
    END $$
    """,
    """
    CREATE TRIGGER relay_device_gone AFTER DELETE ON devices REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION relay_device_gone()
    """,
    // How far the sweep has come: all messages with sequences up to `swept` were looked at, those up to `ready` may be,
    // and those up to `bound` once the next sweep begins.
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
    """
    INSERT INTO wake_sweeps (swept, ready, bound, began)
    SELECT s.last, s.last, s.last, 0
    FROM (SELECT CASE WHEN is_called THEN last_value ELSE 0 END AS last FROM message_sequence) AS s
    """,
    // The sweep reads what has arrived lately. Of the days past yesterday it wants nothing: partitions that are there already
    // get the index from yesterday on alone, and those to come get it as they are attached. A B-tree, since a queue's holes
    // are filled again: numbers do not stand in order in the table.
    "CREATE INDEX messages_by_arrival ON ONLY messages (sequence)",
    """
    DO $$
    DECLARE partition text;
    BEGIN
      FOR partition IN
        SELECT c.relname::text FROM pg_inherits JOIN pg_class AS c ON c.oid = inhrelid
        WHERE inhparent = 'messages'::regclass
          AND c.relname::text COLLATE "C" >= 'messages_' || to_char((now() AT TIME ZONE 'UTC')::date - 1, 'YYYYMMDD')
      LOOP
        EXECUTE format('CREATE INDEX %I ON %I (sequence)', partition || '_by_arrival', partition);
        EXECUTE format('ALTER INDEX messages_by_arrival ATTACH PARTITION %I', partition || '_by_arrival');
      END LOOP;
    END $$
    """,
  ]
}
