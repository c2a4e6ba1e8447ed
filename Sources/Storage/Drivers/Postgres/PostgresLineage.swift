import RelayCore

/// The history that a server writes: the cluster's identifier, and the timeline, which each promotion raises.
///
/// A former primary that is started as it was takes writes on the timeline that it had. These writes are lost as
/// soon as it follows the new primary.
struct PostgresLineage: Sendable, Equatable {
  let system: Int64
  let timeline: Int64

  /// - Returns: nil when the server's answer is another one than `query` expects.
  init?(_ result: PostgresResult) {
    do throws(StoreError) {
      let found = try result.first { row throws(StoreError) in (try row.bigint(), try row.bigint()) }
      guard let found else { return nil }
      (system, timeline) = found
    } catch {
      return nil
    }
  }

  init(system: Int64, timeline: Int64) {
    self.system = system
    self.timeline = timeline
  }

  /// The newer one of a cluster. A server of another cluster begins anew: the operator has moved the store.
  func followed(by other: PostgresLineage) -> PostgresLineage {
    other.system == system && other.timeline < timeline ? self : other
  }

  /// Asks for a server's lineage. A server that is behind `known` ends the session: so it runs nothing that was sent
  /// behind the question.
  static func query(knowing known: PostgresLineage?) -> String {
    """
    SELECT system_identifier, timeline,
      CASE WHEN system_identifier = \(known?.system ?? 0) AND timeline < \(known?.timeline ?? 0)
        THEN pg_catalog.pg_terminate_backend(pg_catalog.pg_backend_pid()) END
    FROM (\(question)) AS server
    """
  }

  /// Rows of `system_identifier` and `timeline`: one.
  static let question = """
    SELECT system_identifier,
      ('x' || left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 8))::bit(32)::bigint AS timeline
    FROM pg_catalog.pg_control_system()
    """
}
