import Foundation

/// A standby of a `PostgresServer`, which follows it asynchronously until it is cut off.
package final class PostgresStandby: Sendable {
  private let primary: PostgresServer
  private let port: Int
  private var data: String { primary.folder + "/standby" }
  private var log: String { primary.folder + "/standby-log" }

  /// Copies the primary, starts the copy, and returns when it answers.
  /// - Parameter port: its own.
  package init(of primary: PostgresServer, at port: Int) throws {
    self.primary = primary
    self.port = port
    try primary.run(
      "pg_basebackup", "--pgdata", primary.folder + "/standby", "--host", primary.folder, "--port", "\(primary.port)",
      "--username", "relay", "--write-recovery-conf", "--wal-method", "stream", "--checkpoint", "fast", "--no-sync")
    try start(at: port)
  }

  private func start(at port: Int) throws {
    try primary.run(
      "pg_ctl", "--pgdata", data, "--log", log, "--options", "-p \(port)", "--wait", "--timeout", "60", "start")
  }

  private func tell(_ text: String) throws {
    try primary.run(
      "psql", "--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1", "--host", primary.folder, "--port", "\(port)",
      "--username", "relay", "--dbname", "postgres", "--command", text)
  }

  /// Whether it has all that the primary has committed.
  package func hasCaughtUp() throws -> Bool {
    try primary.sql(
      "SELECT coalesce(bool_and(replay_lsn >= pg_current_wal_lsn()), false) FROM pg_stat_replication", in: "postgres")
      == "t"
  }

  /// From here on it gets nothing more from the primary.
  package func cutOff() throws {
    try tell("ALTER SYSTEM SET primary_conninfo = \'\'")
    try tell("SELECT pg_reload_conf()")
    let deadline = ContinuousClock.now + MachineSpeed.allow(.seconds(30))
    while try primary.sql("SELECT count(*) FROM pg_stat_replication", in: "postgres") != "0" {
      guard ContinuousClock.now < deadline else { throw TestFailure("the standby still follows") }
      usleep(10_000)
    }
  }

  /// Kills the primary, and takes writes in its stead, at its own port.
  package func promote() throws {
    try primary.kill9()
    try primary.run("pg_ctl", "--pgdata", data, "--wait", "--timeout", "60", "promote")
  }

  /// Kills the primary, and takes its place at its port.
  package func takeOver() throws {
    try promote()
    try primary.run("pg_ctl", "--pgdata", data, "--mode", "fast", "--wait", "--timeout", "60", "stop")
    try start(at: primary.port)
  }

  deinit {
    // There is nobody to tell; the janitor of the primary tries again.
    _ = try? primary.run("pg_ctl", "--pgdata", data, "--mode", "immediate", "--wait", "stop")
  }
}
