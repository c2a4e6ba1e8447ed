import Storage

/// The findings on the servers that may take the primary's place.
enum ReplicationFindings {
  /// - Returns: nothing where one server stands alone. One that waits for a standby which does not follow does not.
  static func all(_ found: PostgresDiagnosis.Replication) -> [Finding] {
    guard found.hosts > 1 || !found.standbys.isEmpty || !found.synchronousNames.isEmpty else { return [] }
    let primary = Finding.ok("\(found.primary) takes writes; storage.url names \(found.hosts) hosts")
    return [primary.named("primary"), standbys(found).named("standbys"), synchrony(found).named("synchronous")]
  }

  private static func standbys(_ found: PostgresDiagnosis.Replication) -> Finding {
    guard !found.standbys.isEmpty else {
      return .warned(
        "no standby follows the primary",
        remedy: "Start the standbys, and see their logs: none can take the primary's place now.")
    }
    let known = found.standbys.filter { $0.state != nil }
    guard !known.isEmpty else {
      return .ok("\(found.standbys.count) follow; GRANT pg_monitor TO our role shows more of them")
    }
    let text = known.map { "\($0.name ?? "unnamed") (\($0.state ?? "-"), \($0.synchrony ?? "-"))" }
    return .ok("following: \(text.joined(separator: ", "))")
  }

  private static func synchrony(_ found: PostgresDiagnosis.Replication) -> Finding {
    guard !found.synchronousNames.isEmpty else {
      let remedy =
        "Set synchronous_standby_names (Patroni: synchronous_mode), or accept that a crash of the primary may lose the "
        + "newest messages: docs/scale.md."
      return found.hosts > 1
        ? .warned("synchronous_standby_names is empty: a commit waits for no standby", remedy: remedy)
        : .ok("a commit waits for no standby")
    }
    // A role that may not see the standbys sees no synchrony.
    guard found.standbys.contains(where: { $0.isSynchronous || $0.synchrony == nil }) else {
      return .failed(
        "synchronous_standby_names is \(found.synchronousNames), and no such standby follows: writes wait for it",
        remedy: "Start the standby, or name one that follows.")
    }
    return .ok("a commit waits for \(found.synchronousNames)")
  }
}
