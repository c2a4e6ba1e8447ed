import Synchronization

/// Databases at the coordinator of `CitusServers.shared()`, each for one test at a time.
///
/// They are used again: to make one takes a second, and each keeps a process at every server. Calls block for as long
/// as PostgreSQL's own tools take.
package final class DistributedDatabases: Sendable {
  package static let shared = DistributedDatabases()

  private let free = Mutex<[String]>([])

  /// - Returns: the URL of an empty database.
  package func take() throws -> String {
    if let url = free.withLock({ $0.popLast() }) { return url }
    return try CitusServers.shared().createDatabase()
  }

  /// Empties the database. All connections to it have ended.
  package func giveBack(_ url: String) throws {
    // The schema itself stays: views of Citus are in it.
    try CitusServers.shared().coordinator.sql(
      """
      SET client_min_messages = warning;
      DO $$
      DECLARE
        names text;
      BEGIN
        SELECT string_agg(format('%I', relname), ', ') INTO names FROM pg_class
        WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition;
        IF names IS NOT NULL THEN EXECUTE 'DROP TABLE ' || names || ' CASCADE'; END IF;
        SELECT string_agg(format('%I', relname), ', ') INTO names FROM pg_class
        WHERE relnamespace = 'public'::regnamespace AND relkind = 'S';
        IF names IS NOT NULL THEN EXECUTE 'DROP SEQUENCE ' || names || ' CASCADE'; END IF;
        SELECT string_agg(oid::regprocedure::text, ', ') INTO names FROM pg_proc
        WHERE pronamespace = 'public'::regnamespace;
        IF names IS NOT NULL THEN EXECUTE 'DROP FUNCTION ' || names || ' CASCADE'; END IF;
      END $$
      """, in: url)
    free.withLock { $0.append(url) }
  }
}
