// A PostgreSQL of the tests' own: a private cluster in a temporary folder, gone without a trace when the process is.

import ChildProcesses
import Foundation
import Glibc
import Synchronization

/// A private PostgreSQL server with durable commits, on a free port of loopback and on a Unix socket.
///
/// A janitor process waits on a pipe whose other end only this process holds: however the tests end, by a kill too, it
/// stops the server and removes the folder. Calls block for as long as PostgreSQL's own tools take.
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
  private let tools: String
  private let janitor: Janitor
  private let databaseCount = Atomic<Int>(0)

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
  package init() throws {
    tools = try Self.findTools()
    folder = try Self.makeFolder()
    port = try Loopback.freePorts(1)[0]
    janitor = try Janitor(folder: folder, tools: tools)
    try run(
      "initdb", "--pgdata", data, "--username", "relay", "--auth", "trust", "--encoding", "UTF8", "--no-locale",
      "--no-sync")
    let settings = """
      listen_addresses = '127.0.0.1'
      port = \(port)
      unix_socket_directories = '\(folder)'
      max_connections = 300
      shared_buffers = 128MB
      log_min_messages = warning
      """
    try run("sh", "-c", "echo \"$1\" >>\"$2/postgresql.conf\"", "sh", settings, data)
    try start()
  }

  /// Creates an empty database.
  /// - Returns: its URL, over TCP.
  package func createDatabase() throws -> String {
    let name = "test_\(databaseCount.add(1, ordering: .relaxed).newValue)"
    try sql("CREATE DATABASE \(name)", in: "postgres")
    return url(database: name)
  }

  package func url(database: String) -> String { "postgres://relay@127.0.0.1:\(port)/\(database)" }

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

  /// Starts a stopped server; returns when it answers.
  package func start() throws {
    try run("pg_ctl", "--pgdata", data, "--log", folder + "/log", "--wait", "--timeout", "60", "start")
  }

  /// Ends every connection and stops the server; returns when it has stopped.
  package func stop() throws {
    try run("pg_ctl", "--pgdata", data, "--mode", "fast", "--wait", "--timeout", "60", "stop")
  }

  package func restart() throws {
    try stop()
    try start()
  }

  /// Kills every process of the server, as a crash would. `start` recovers what was committed.
  package func kill9() throws {
    let file = try run("cat", data + "/postmaster.pid")
    guard let line = file.split(separator: "\n").first, let pid = Int32(line) else {
      throw Failure.command("reading postmaster.pid", output: file)
    }
    // The children notice the postmaster's death and end by themselves: a new one waits for that.
    guard kill(pid, SIGKILL) == 0 else { throw Failure.command("kill", output: "errno \(errno)") }
    while kill(pid, 0) == 0 { usleep(10_000) }
    try run("sh", "-c", "while pgrep -P 1 -f \"$1\" >/dev/null; do sleep 0.05; done", "sh", "postgres.*" + data)
    try run("rm", "-f", data + "/postmaster.pid")
  }

  private var data: String { folder + "/data" }

  @discardableResult
  private func run(_ arguments: String...) throws -> String {
    try Command.run(arguments, tools: tools)
  }
}

// MARK: - Finding a place

extension PostgresServer {
  /// The newest of the versions that Debian keeps side by side, else whatever `pg_config` knows.
  private static func findTools() throws -> String {
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
  private static func makeFolder() throws -> String {
    var template = Array("/tmp/relay-pg-XXXXXX".utf8CString)
    guard mkdtemp(&template) != nil else { throw Failure.command("mkdtemp", output: "errno \(errno)") }
    let path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    if let user = Command.serverUser { chown(path, user.pw_uid, user.pw_gid) }
    return path
  }
}

/// Stops the server and removes its folder when this process ends.
private final class Janitor: Sendable {
  /// Ours alone: no child inherits it. The janitor reads its end when we are gone.
  private let pipeEnd: Int32

  init(folder: String, tools: String) throws {
    var ends: [Int32] = [0, 0]
    guard pipe(&ends) == 0, ends.allSatisfy({ fcntl($0, F_SETFD, FD_CLOEXEC) == 0 }) else {
      throw PostgresServer.Failure.command("pipe", output: "errno \(errno)")
    }
    pipeEnd = ends[1]
    let script = """
      trap '' INT TERM HUP
      read -r end
      "$1/pg_ctl" --pgdata "$2/data" --mode immediate --wait stop >/dev/null 2>&1
      rm -rf "$2"
      """
    let process = Command.process(["sh", "-c", script, "sh", tools, folder], tools: tools)
    process.standardInput = FileHandle(fileDescriptor: ends[0], closeOnDealloc: true)
    process.standardOutput = FileHandle.nullDevice
    process.standardError = FileHandle.nullDevice
    try process.run()
  }

  deinit { close(pipeEnd) }
}

private enum Command {
  /// PostgreSQL refuses to run as root. nil when we are not.
  static var serverUser: passwd? { geteuid() == 0 ? getpwnam("postgres")?.pointee : nil }

  /// The last command's output and errors together.
  static func run(_ arguments: [String], tools: String) throws -> String {
    // A file, not a pipe: a server that `pg_ctl` leaves behind would keep a pipe open.
    let output = NSTemporaryDirectory() + "relay-pg-" + UUID().uuidString
    defer { unlink(output) }
    let exit = try ChildProcess.run(
      ChildProcess.Launch(
        command: command(arguments, tools: tools), environment: environment, standardOutput: output,
        standardError: output, user: serverUser == nil ? nil : "postgres"))
    let text = String(decoding: try Data(contentsOf: URL(filePath: output)), as: UTF8.self)
    guard exit == .code(0) else {
      throw PostgresServer.Failure.command(arguments.first ?? "", output: text)
    }
    return text
  }

  static func command(_ arguments: [String], tools: String) -> [String] {
    guard let name = arguments.first, FileManager.default.isExecutableFile(atPath: tools + "/" + name) else {
      return arguments
    }
    return [tools + "/" + name] + arguments.dropFirst()
  }

  /// Ours without what would redirect libpq.
  static var environment: [String: String] {
    var environment = ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("PG") }
    environment["LC_ALL"] = "C"
    return environment
  }

  /// As PostgreSQL's user when we are root.
  static func process(_ arguments: [String], tools: String) -> Process {
    let process = Process()
    process.executableURL = URL(filePath: "/usr/bin/env")
    process.arguments =
      (serverUser == nil ? [] : ["runuser", "-u", "postgres", "--"]) + command(arguments, tools: tools)
    process.currentDirectoryURL = URL(filePath: "/")
    process.environment = environment
    return process
  }
}
