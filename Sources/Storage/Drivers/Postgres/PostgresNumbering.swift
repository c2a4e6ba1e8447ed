/// Keeps the numbers of messages from being given twice, and the directory from being followed over a gap.
///
/// An asynchronous standby that is promoted gives out again the numbers of messages that were lost with the former
/// primary. A device may still hold one of these: it would take the new message for the old one, and its
/// acknowledgement would remove it unread. So where another history goes on, or another cluster, both sequences leap
/// ahead before anything is written there.
///
/// An asynchronous standby may lack registrations too, and gives their places in the directory's feeds again. Processes
/// and peers then read the directory anew, as of another generation.
///
/// `store_numbering` has one row: the server whose numbers the store gives. A process that lets them leap locks it
/// first: two at once could set a sequence back.
enum PostgresNumbering {
  static let schema = [
    """
    CREATE TABLE store_numbering (
      singleton boolean NOT NULL DEFAULT true CHECK (singleton),
      system_identifier bigint,
      timeline bigint,
      PRIMARY KEY (singleton)
    )
    """,
    "INSERT INTO store_numbering (system_identifier, timeline) VALUES (NULL, NULL)",
    """
    DO $$
    BEGIN
      UPDATE store_numbering SET (system_identifier, timeline) = (SELECT system_identifier, timeline FROM \(server));
    EXCEPTION WHEN insufficient_privilege THEN NULL;
    END $$
    """,
  ]

  /// The statement of each connection ahead of its requests. It does nothing at the server that the store knows, at one
  /// without a schema, and where the role may not ask which server it is, or may not set a sequence.
  ///
  /// Its commit waits for no standby: every connection waits for it, those that only read too. Commits of messages come
  /// behind it in the log, and wait. Where it fails, the session ends: what was sent behind it must not run.
  static let followServer = """
    DO $$
    DECLARE here record;
    BEGIN
      IF pg_catalog.to_regclass('store_numbering') IS NULL THEN RETURN; END IF;
      SELECT system_identifier, timeline INTO here FROM \(server);
      PERFORM pg_catalog.set_config('synchronous_commit', 'local', true);
      UPDATE store_numbering SET system_identifier = here.system_identifier, timeline = here.timeline
      WHERE (system_identifier, timeline) IS DISTINCT FROM (here.system_identifier, here.timeline);
      IF FOUND THEN
        PERFORM \(leaps);
        \(notificationLeap);
        UPDATE revisions SET value = greatest(value + 1, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)
        WHERE subject = 'listing-generation' AND pg_catalog.current_setting('synchronous_standby_names') = '';
      END IF;
    EXCEPTION
      WHEN insufficient_privilege OR undefined_function OR feature_not_supported THEN NULL;
      WHEN read_only_sql_transaction THEN RAISE;
      WHEN OTHERS THEN
        PERFORM pg_catalog.pg_terminate_backend(pg_catalog.pg_backend_pid());
        RAISE;
    END $$
    """

  /// For a store that was put back under the same server.
  static let leap: PostgresQuery = """
    DO $$
    BEGIN
      PERFORM FROM store_numbering FOR UPDATE;
      PERFORM \(fragment: leaps);
      \(fragment: notificationLeap);
    EXCEPTION WHEN insufficient_privilege THEN NULL;
    END $$
    """

  /// By 2^32 to 2^40: further than a store gets within what a standby can lag behind. At random: several may go on from
  /// one state, one after the other.
  private static let leaps: StaticString = """
    pg_catalog.setval('message_sequence',
        pg_catalog.nextval('message_sequence') + 4294967296 * (1 + (pg_catalog.random() * 255)::bigint)),
      pg_catalog.setval('outbox_sequence',
        pg_catalog.nextval('outbox_sequence') + 4294967296 * (1 + (pg_catalog.random() * 255)::bigint))
    """

  /// The numbers of device notifications likewise, which have 18 digits: apps ask for what is behind the last one that
  /// they have seen.
  private static let notificationLeap: StaticString = """
    UPDATE notification_numbers
      SET last = least(last + 4294967296 * (1 + (pg_catalog.random() * 255)::bigint), 999999999999999999) WHERE last > 0
    """

  private static let server = "(\(PostgresLineage.question)) AS server"
}
