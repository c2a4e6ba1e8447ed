// A PostgreSQL of the tests' own: a private cluster in a temporary folder, gone without a trace when the process is.

import ChildProcesses
import Foundation
import Glibc
import Synchronization

/// A private PostgreSQL server with durable commits, on a free port of loopback and on a Unix socket.
///
/// However the tests end, by a kill too, a janitor process stops the server and removes the folder. Calls block for as
/// long as PostgreSQL's own tools take.
package final class PostgresServer: Sendable {
  package enum Failure: Error, CustomStringConvertible {
    case missing(String)
    case command(String, output: String)

    package var description: String {
      switch self {
      case .missing(let what): "not found: \(what)"
      case .command(let command, let output): "\(command) failed: \(output)"
      }
    }
  }

  /// The TCP port on 127.0.0.1; the same after a restart.
  package let port: Int
  /// Also where the Unix socket lies.
  package let folder: String
  /// The disk of `folder`, if it was told to have one of its own.
  package let disk: TestDisk?
  private let tools: String
  private let databaseCount = Atomic<Int>(0)
  private let outputCount = Atomic<Int>(0)

  /// The server that all suites of one test process share; started by the first that asks.
  package static func shared() throws -> PostgresServer {
    try sharedServer.withLock { server in
      if let server { return server }
      let started = try PostgresServer()
      server = started
      return started
    }
  }
  private static let sharedServer = Mutex<PostgresServer?>(nil)

  /// Creates a cluster, starts its server, and returns when it answers.
  /// - Parameters:
  ///   - tls: with it, TCP is for TLS alone, and for clients with a certificate where it names their CA.
  ///   - hasOwnDisk: see `TestDisk`.
  ///   - settings: further lines of `postgresql.conf`.
  package init(tls: ServerTLS? = nil, hasOwnDisk: Bool = false, settings others: [String] = []) throws {
    let tools = try Self.findTools()
    let folder = try Self.makeFolder()
    self.tools = tools
    self.folder = folder
    disk = try hasOwnDisk ? TestDisk(at: folder, owner: Self.user) : nil
    port = try Loopback.freePorts(1)[0]
    try Self.startJanitor(folder: folder, tools: tools)
    try run(
      "initdb", "--pgdata", data, "--username", "relay", "--auth", "trust", "--encoding", "UTF8", "--no-locale",
      "--no-sync")
    let settings = """
      listen_addresses = '127.0.0.1'
      port = \(port)
      unix_socket_directories = '\(folder)'
      max_connections = 900
      shared_buffers = 128MB
      log_min_messages = warning
      \(Self.settings(of: disk))
      \(others.joined(separator: "\n"))
      """
    try run("sh", "-c", "echo \"$1\" >>\"$2/postgresql.conf\"", "sh", settings, data)
    if let tls { try prepare(tls) }
    try start()
  }

  /// Creates a standby that follows `primary`, starts it, and returns when it answers.
  ///
  /// `primary` waits for it with each commit only when it is told to: `waitForStandby`.
  /// - Parameters:
  ///   - port: of the loopback address, where something leads on to `primary`; nil: over its socket.
  ///   - hasOwnDisk: see `TestDisk`.
  package init(standbyOf primary: PostgresServer, over port: Int? = nil, hasOwnDisk: Bool = false) throws {
    let tools = try Self.findTools()
    let folder = try Self.makeFolder()
    self.tools = tools
    self.folder = folder
    disk = try hasOwnDisk ? TestDisk(at: folder, owner: Self.user) : nil
    self.port = try Loopback.freePorts(1)[0]
    try Self.startJanitor(folder: folder, tools: tools)
    try copy(primary, over: port)
    try start()
  }

  /// Makes a server that is stopped, or has crashed, a standby of `primary`: it takes no writes any more.
  ///
  /// It loses its data, and keeps its port. Returns when it answers.
  package func follow(_ primary: PostgresServer) throws {
    try run("rm", "-rf", data)
    try copy(primary, over: nil)
    try start()
  }

  private func copy(_ primary: PostgresServer, over port: Int?) throws {
    let way = port.map { ("127.0.0.1", $0) } ?? (primary.folder, primary.port)
    try run(
      "pg_basebackup", "--pgdata", data, "--host", way.0, "--port", "\(way.1)", "--username", "relay",
      "--wal-method", "stream", "--checkpoint", "fast", "--write-recovery-conf", "--no-sync")
    let settings = "port = \(self.port)\nunix_socket_directories = '\(folder)'\n\(Self.settings(of: disk))"
    try run("sh", "-c", "echo \"$1\" >>\"$2/postgresql.conf\"", "sh", settings, data)
  }

  /// PostgreSQL 15 ends when a checkpoint finds no room for a file. One comes five minutes after the start by itself:
  /// a test of a full disk that takes longer would look at a server that is gone.
  private static func settings(of disk: TestDisk?) -> String { disk == nil ? "" : "checkpoint_timeout = '1d'" }

  /// Whether a standby has all that this server has committed.
  package func isFollowed() throws -> Bool {
    try sql(
      "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND flush_lsn >= pg_current_wal_flush_lsn()",
      in: "postgres") != "0"
  }

  /// The sessions of relays.
  package func relaySessions() throws -> Int {
    let text = try sql("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'relay'", in: "postgres")
    guard let count = Int(text) else { throw TestFailure("no number of sessions: \(text)") }
    return count
  }

  /// Whether a commit is answered only when a standby has it on disk. Without a standby commits then wait. So what a
  /// standby has missed stays at hand for it.
  package func waitForStandby(_ doesWait: Bool) throws {
    try sql("ALTER SYSTEM SET wal_keep_size = '1GB'", in: "postgres")
    try sql("ALTER SYSTEM SET synchronous_standby_names = '\(doesWait ? "*" : "")'", in: "postgres")
    try sql("SELECT pg_reload_conf()", in: "postgres")
  }

  /// Makes a standby the primary; returns when it takes writes. Its commits wait for nobody.
  package func promote() throws {
    try run("pg_ctl", "--pgdata", data, "--wait", "--timeout", "60", "promote")
    try waitForStandby(false)
  }

  private func prepare(_ tls: ServerTLS) throws {
    try tls.write(to: folder)
    let user = Self.user.flatMap { getpwnam($0)?.pointee }
    chmod(folder + "/tls.key", 0o600)
    if let user { chown(folder + "/tls.key", user.pw_uid, user.pw_gid) }
    var settings = ["ssl = on", "ssl_cert_file = '\(folder)/tls.pem'", "ssl_key_file = '\(folder)/tls.key'"]
    if tls.clients != nil { settings.append("ssl_ca_file = '\(folder)/clients.pem'") }
    let access = [
      "local all all trust", "local replication all trust",
      "hostssl all all 127.0.0.1/32 trust\(tls.clients == nil ? "" : " clientcert=verify-ca")",
    ]
    let lines = [settings, access].map { $0.joined(separator: "\n") }
    try run(
      "sh", "-c", "echo \"$1\" >>\"$3/postgresql.conf\"; echo \"$2\" >\"$3/pg_hba.conf\"", "sh", lines[0], lines[1],
      data)
  }

  /// Creates an empty database.
  /// - Parameter role: whose it is, and whom the URL names; nil: a superuser's.
  /// - Returns: its URL, over TCP.
  package func createDatabase(of role: String? = nil) throws -> String {
    let name = "test_\(databaseCount.add(1, ordering: .relaxed).newValue)"
    try sql("CREATE DATABASE \(name)" + (role.map { " OWNER \($0)" } ?? ""), in: "postgres")
    let url = url(database: name)
    return role.map { url.replacing("//relay@", with: "//\($0)@") } ?? url
  }

  /// All that the server has logged so far.
  package func log() throws -> String { try String(contentsOfFile: folder + "/log", encoding: .utf8) }

  package func url(database: String) -> String { "postgres://relay@127.0.0.1:\(port)/\(database)" }

  /// The same database over the Unix socket: it can be reached from other network namespaces too.
  package func socketURL(_ url: String) -> String {
    let host = folder.replacing("/", with: "%2F")
    return url.replacing("127.0.0.1:\(port)", with: "\(host):\(port)")
  }

  /// Runs `text` in the database of `url`, or of that name.
  /// - Returns: the rows, one a line, columns separated by `|`.
  @discardableResult
  package func sql(_ text: String, in database: String) throws -> String {
    let name = database.split(separator: "/").last.map(String.init) ?? database
    return try run(
      "psql", "--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set", "ON_ERROR_STOP=1", "--host",
      folder, "--port", "\(port)", "--username", "relay", "--dbname", name, "--command", text
    ).trimmingCharacters(in: .whitespacesAndNewlines)
  }

  /// - Returns: what `pg_dump` writes of the database of `url`.
  package func dump(_ url: String) throws -> String {
    let name = url.split(separator: "/").last.map(String.init) ?? url
    return try run(
      "pg_dump", "--host", folder, "--port", "\(port)", "--username", "relay", "--dbname", name)
  }

  /// Starts a stopped server; returns when it answers.
  package func start() throws {
    do {
      try run("pg_ctl", "--pgdata", data, "--log", folder + "/log", "--wait", "--timeout", "60", "start")
    } catch {
      let log = try String(contentsOfFile: folder + "/log", encoding: .utf8)
      throw Failure.command("starting PostgreSQL", output: log.suffix(2000).description)
    }
  }

  /// Ends every connection and stops the server; returns when it has stopped.
  package func stop() throws {
    try run("pg_ctl", "--pgdata", data, "--mode", "fast", "--wait", "--timeout", "60", "stop")
  }

  /// Returns when it answers, whether it has ended by itself, is just recovering, or was never gone.
  package func revive() throws {
    let deadline = ContinuousClock.now + MachineSpeed.allow(.seconds(60))
    while true {
      // Fails while it does not run.
      if (try? run("pg_ctl", "--pgdata", data, "status")) == nil { try start() }
      // Refused while it recovers.
      if (try? sql("SELECT 1", in: "postgres")) != nil { return }
      guard ContinuousClock.now < deadline else { throw TestFailure("PostgreSQL does not come back") }
      usleep(100_000)
    }
  }

  /// Kills every process of the server, as a crash would. `start` recovers what was committed.
  package func kill9() throws {
    let file = try String(contentsOfFile: data + "/postmaster.pid", encoding: .utf8)
    guard let line = file.split(separator: "\n").first, let postmaster = Int32(line) else {
      throw Failure.missing("a process number in postmaster.pid")
    }
    let children = try run("pgrep", "--parent", "\(postmaster)").split(separator: "\n").compactMap { Int32($0) }
    for pid in [postmaster] + children where kill(pid, SIGKILL) != 0 && errno != ESRCH {
      throw Failure.command("kill", output: "errno \(errno)")
    }
    // A new server refuses to start beside what is left of the old one.
    while ([postmaster] + children).contains(where: Self.isRunning) { usleep(5000) }
    // They name a process that still exists while it is a zombie.
    unlink(data + "/postmaster.pid")
    unlink(folder + "/.s.PGSQL.\(port).lock")
  }

  /// Zombies are not: their parent may take its time.
  private static func isRunning(_ pid: Int32) -> Bool {
    // No such file: no such process.
    guard let status = try? String(contentsOfFile: "/proc/\(pid)/stat", encoding: .utf8) else { return false }
    return !status.contains(") Z ")
  }

  /// Stops the server and removes its folder.
  deinit {
    // There is nobody to tell; the janitor tries again.
    _ = try? run("pg_ctl", "--pgdata", data, "--mode", "immediate", "--wait", "stop")
    disk?.remove()
    _ = try? FileManager.default.removeItem(atPath: folder)
  }

  private var data: String { folder + "/data" }
}

// MARK: - Finding a place

extension PostgresServer {
  /// The newest of the versions that Debian keeps side by side, else whatever `pg_config` knows.
  static func findTools() throws -> String {
    let root = "/usr/lib/postgresql"
    // Fails when there is no such folder.
    let versions = (try? FileManager.default.contentsOfDirectory(atPath: root))?.compactMap { Int($0) } ?? []
    if let newest = versions.max() { return "\(root)/\(newest)/bin" }
    for folder in ["/usr/local/pgsql/bin", "/usr/local/bin", "/usr/bin"]
    where FileManager.default.isExecutableFile(atPath: folder + "/initdb") {
      return folder
    }
    throw Failure.missing("PostgreSQL's server programs (initdb, pg_ctl)")
  }

  /// A short path: a Unix socket's has 107 bytes at most.
  static func makeFolder() throws -> String {
    var template = Array("/tmp/relay-pg-XXXXXX".utf8CString)
    guard mkdtemp(&template) != nil else { throw Failure.command("mkdtemp", output: "errno \(errno)") }
    let path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    if let user = user.flatMap({ getpwnam($0)?.pointee }) { chown(path, user.pw_uid, user.pw_gid) }
    return path
  }
}

// MARK: - Running PostgreSQL's tools

extension PostgresServer {
  /// The user to run as: PostgreSQL refuses root.
  static var user: String? { geteuid() == 0 ? "postgres" : nil }

  /// Runs one of PostgreSQL's tools, or of the system's, to its end.
  /// - Returns: its output and errors together.
  @discardableResult
  func run(_ command: String...) throws -> String {
    let output = folder + "/output-\(outputCount.add(1, ordering: .relaxed).newValue)"
    defer { unlink(output) }
    let exit = try ChildProcess.run(Self.launch(command, output: output, tools: tools))
    let text = try String(contentsOfFile: output, encoding: .utf8)
    guard exit == .code(0) else { throw Failure.command(command.first ?? "", output: text) }
    return text
  }

  static func launch(_ command: [String], output: String, tools: String) -> ChildProcess.Launch {
    var command = command
    if let name = command.first, FileManager.default.isExecutableFile(atPath: tools + "/" + name) {
      command[0] = tools + "/" + name
    }
    var environment = ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("PG") }
    environment["LC_ALL"] = "C"
    // A server that connects to others looks for certificates there, and may not look into root's.
    environment["HOME"] = "/nonexistent"
    return ChildProcess.Launch(
      command: command, environment: environment, standardOutput: output, standardError: output, user: user)
  }

  /// Starts a process that sleeps until this one dies, and then leaves nothing of the servers whose data lie in `data`
  /// and `standby` of `folder`.
  static func startJanitor(folder: String, tools: String) throws {
    let script = """
      trap 'kill "$!"; for d in data standby; do "$1/pg_ctl" --pgdata "$2/$d" --mode immediate --wait stop; done; rm -rf "$2"; exit 0' TERM
      touch "$2/janitor"
      while :; do sleep 3600 & wait "$!"; done
      """
    var launch = launch(["sh", "-c", script, "sh", tools, folder], output: "/dev/null", tools: tools)
    launch.deathSignal = "TERM"
    // The signal goes out when the thread that started the process ends: this one never does.
    Thread.detachNewThread { [launch] in _ = try? ChildProcess.run(launch) }  // Its failure shows below.
    let deadline = ContinuousClock.now + MachineSpeed.allow(.seconds(10))
    while !FileManager.default.fileExists(atPath: folder + "/janitor") {
      guard ContinuousClock.now < deadline else { throw Failure.missing("a shell and setpriv for the janitor") }
      usleep(5000)
    }
  }
}
