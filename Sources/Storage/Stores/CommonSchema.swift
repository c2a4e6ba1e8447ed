// The tables that every noun stands on.

/// `revisions` has a row for each subject, a number that rises with each change of it. `listing-generation` is another
/// number in a store that was made anew. Places in a feed before its `-pruned` mean nothing: those changes were
/// forgotten. `contact-passes` counts the contacts that passed from one peer to another, `-told` those that the
/// operator was told of. `wake-ups` is `MissedWakeUpStore`'s.
///
/// `store_clock` holds `SeenTime`, in milliseconds; 0 before the first run of maintenance.
enum CommonSchema {
  static let postgres = [
    """
    CREATE TABLE revisions (
      subject text NOT NULL,
      value bigint NOT NULL,
      PRIMARY KEY (subject)
    )
    """,
    """
    INSERT INTO revisions (subject, value)
    VALUES ('accounts', 1), ('peers', 1), ('listing', 0), ('listing-pruned', 0), ('directory-pruned', 0),
      ('contact-passes', 0), ('contact-passes-told', 0), ('wake-ups', 0),
      ('listing-generation', floor(extract(epoch FROM now()) * 1000)::bigint)
    """,
    """
    CREATE TABLE leases (
      name text COLLATE "C" NOT NULL,
      holder bigint NOT NULL,
      expires timestamptz NOT NULL,
      PRIMARY KEY (name)
    )
    """,
    "CREATE TABLE store_clock (seen bigint NOT NULL, cleared bigint NOT NULL)",
    "INSERT INTO store_clock (seen, cleared) VALUES (0, 0)",
    // `seen` is the day of the last seen time, NULL where it is not known: `SeenTime.arrivalTime` and `presentTime`.
    // Planners put these functions into the statement, where they choose partitions.
    """
    CREATE FUNCTION relay_arrival_day(seen date) RETURNS date LANGUAGE sql STABLE
    AS $$ SELECT greatest((now() AT TIME ZONE 'UTC')::date, seen) $$
    """,
    """
    CREATE FUNCTION relay_present_day(seen date) RETURNS date LANGUAGE sql STABLE
    AS $$
      SELECT CASE WHEN (now() AT TIME ZONE 'UTC')::date > seen + 1 THEN seen
        ELSE greatest((now() AT TIME ZONE 'UTC')::date, seen) END
    $$
    """,
  ]

  static let embedded = """
    CREATE TABLE revisions (
      subject TEXT PRIMARY KEY,
      value INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    INSERT INTO revisions (subject, value)
    VALUES ('accounts', 1), ('peers', 1), ('listing', 0), ('listing-pruned', 0), ('directory-pruned', 0),
      ('contact-passes', 0), ('contact-passes-told', 0), ('wake-ups', 0),
      ('listing-generation', 1000 * CAST(strftime('%s', 'now') AS INTEGER));

    CREATE TABLE leases (
      name TEXT PRIMARY KEY,
      holder INTEGER NOT NULL,
      expires INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE store_clock (
      singleton INTEGER PRIMARY KEY CHECK (singleton = 1),
      seen INTEGER NOT NULL,
      cleared INTEGER NOT NULL
    ) STRICT;
    INSERT INTO store_clock (singleton, seen, cleared) VALUES (1, 0, 0);
    """
}
