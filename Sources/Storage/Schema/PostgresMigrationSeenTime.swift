// The twelfth step of the schema: the last time that was seen.

extension PostgresMigration {
  // `SeenTime`, in milliseconds; 0 before the first run of maintenance. Builds of before go on removing by their clock.
  static let seenTime = [
    "CREATE TABLE store_clock (seen bigint NOT NULL, cleared bigint NOT NULL)",
    "INSERT INTO store_clock (seen, cleared) VALUES (0, 0)",
    // Of the day of the last seen time, NULL where it is not known: `SeenTime.arrivalTime` and `presentTime`. Planners put
    // them into the statement, where they choose partitions.
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
}
