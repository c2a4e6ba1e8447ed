/// Keeps the numbers of messages from being given twice.
///
/// An asynchronous standby that is promoted gives out again the numbers of messages that were lost with the former
/// primary. A device may still hold one of these: it would take the new message for the old one, and its
/// acknowledgement would remove it unread. So where another history goes on, or another cluster, both sequences leap
/// ahead before anything is written there.
///
/// `store_numbering` has one row: the server whose numbers the store gives. Whoever lets them leap locks it first: two
/// at once could set a sequence back.
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
  /// without a schema, and where the role may not ask which server it is.
  static let followServer = """
    DO $$
    DECLARE here record;
    BEGIN
      IF pg_catalog.to_regclass('store_numbering') IS NULL THEN RETURN; END IF;
      SELECT system_identifier, timeline INTO here FROM \(server);
      UPDATE store_numbering SET system_identifier = here.system_identifier, timeline = here.timeline
      WHERE (system_identifier, timeline) IS DISTINCT FROM (here.system_identifier, here.timeline);
      IF FOUND THEN PERFORM \(leaps); END IF;
    EXCEPTION WHEN insufficient_privilege THEN NULL;
    END $$
    """

  /// For a store that was put back under the same server.
  static let lock: PostgresQuery = "SELECT FROM store_numbering FOR UPDATE"
  /// Behind `lock`, in its transaction.
  static let leapAhead: PostgresQuery = "SELECT \(fragment: leaps)"

  /// By 2^32: further than a store gets within what a standby can lag behind.
  private static let leaps: StaticString = """
    pg_catalog.setval('message_sequence', pg_catalog.nextval('message_sequence') + 4294967296),
      pg_catalog.setval('outbox_sequence', pg_catalog.nextval('outbox_sequence') + 4294967296)
    """

  private static let server = "(\(PostgresLineage.question)) AS server"
}
