import ChildProcesses
import Foundation
import Glibc

/// A private PostgreSQL that keeps its promises: every commit waits for the disk.
struct PostgresServer: Sendable {
  /// The settings that differ from PostgreSQL's defaults, and those that must not.
  static let settings = [
    "fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "shared_buffers": "512MB",
    "max_wal_size": "4GB",
  ]

  let process: ChildProcess
  let version: String
  /// Whether it counts the statements that it runs.
  private let isCounting: Bool
  let port: Int
  let password: String

  func url(_ database: String) -> String { "postgres://relay:\(password)@127.0.0.1:\(port)/\(database)" }

  /// - Parameters:
  ///   - programs: the folder of `initdb` and `postgres`; nil looks where Debian puts them.
  ///   - port: free.
  ///   - name: of its folder and its log.
  ///   - modules: that it loads at its start.
  static func start(
    in workshop: Workshop, programs: String?, port: Int, name: String = "postgres", password: String,
    modules: [String] = []
  ) async throws -> PostgresServer {
    let programs = try programs ?? newestPrograms()
    // PostgreSQL refuses to run as root; Debian's packages bring a user for it.
    let user = getuid() == 0 ? "postgres" : nil
    let folder = try workshop.makeFolder(name, for: user)
    let data = folder.appending(path: "data").path
    let passwordFile = folder.appending(path: "password")
    try Data(password.utf8).write(to: passwordFile)
    if let user { try workshop.hand(passwordFile, to: user) }
    let environment = ["PATH": "/usr/bin:/bin", "LC_ALL": "C"]
    _ = try await workshop.run(
      "initdb",
      [
        "\(programs)/initdb", "--pgdata=\(data)", "--username=relay", "--pwfile=\(passwordFile.path)",
        "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync",
      ], environment: environment, user: user)
    let listening = [
      "port": "\(port)", "listen_addresses": "127.0.0.1", "unix_socket_directories": "", "max_connections": "100",
    ]
    // The module comes with Debian's server. It costs a statement about a microsecond.
    let isCounting = FileManager.default.fileExists(atPath: Self.libraries(of: programs) + "/pg_stat_statements.so")
    var loading = [
      "shared_preload_libraries": (modules + (isCounting ? ["pg_stat_statements"] : [])).joined(separator: ",")
    ]
    if isCounting { loading["pg_stat_statements.save"] = "off" }
    // Each shard of each day is a table.
    if !modules.isEmpty { loading["max_locks_per_transaction"] = "1024" }
    let options = settings.merging(listening) { $1 }.merging(loading) { $1 }.flatMap {
      ["-c", "\($0.key)=\($0.value)"]
    }
    // SIGINT disconnects everyone and shuts down in order; SIGQUIT ends all its processes at once.
    let process = try await workshop.serve(
      name, ["\(programs)/postgres", "-D", data] + options, environment: environment, user: user,
      stopSignal: SIGINT, deathSignal: "QUIT")
    let url = "postgres://relay:\(password)@127.0.0.1:\(port)/postgres"
    try await waitUntil("PostgreSQL", while: process) {
      try await onOwnThread { _ = try Database(url) }
    }
    let version = try await onOwnThread {
      let database = try Database(url)
      if isCounting { try database.execute("CREATE EXTENSION pg_stat_statements") }
      return try database.text("SHOW server_version")
    }
    return PostgresServer(
      process: process, version: version, isCounting: isCounting, port: port, password: password)
  }

  /// `/usr/lib/postgresql/15/bin` and `/usr/lib/postgresql/15/lib` stand side by side.
  private static func libraries(of programs: String) -> String {
    URL(filePath: programs).deletingLastPathComponent().appending(path: "lib").path
  }

  /// The statements that were run in the operators' databases so far; nil where they are not counted.
  func countStatements() async throws -> Int? {
    guard isCounting else { return nil }
    return try await with("postgres") { database in
      try database.integer(
        """
        SELECT coalesce(sum(s.calls), 0)::bigint FROM pg_stat_statements AS s JOIN pg_database AS d ON d.oid = s.dbid
        WHERE d.datname <> 'postgres'
        """)
    }
  }

  /// Runs `work` over a connection of its own, on a thread of its own.
  func with<Value: Sendable>(
    _ database: String, _ work: @escaping @Sendable (borrowing Database) throws -> Value
  ) async throws -> Value {
    let url = url(database)
    return try await onOwnThread { try work(try Database(url)) }
  }

  /// A checkpoint now, so that none left over from what was before falls into what is measured next.
  func settle() async throws { try await with("postgres") { try $0.execute("CHECKPOINT") } }

  private static func newestPrograms() throws -> String {
    let root = "/usr/lib/postgresql"
    // Without the folder there is no PostgreSQL.
    let versions = (try? FileManager.default.contentsOfDirectory(atPath: root)) ?? []
    let newest = versions.compactMap(Int.init).sorted(by: >).map { "\(root)/\($0)/bin" }
    guard let programs = newest.first(where: { FileManager.default.isExecutableFile(atPath: "\($0)/postgres") }) else {
      throw BenchmarkFailure("PostgreSQL is not installed under \(root): name its programs with --postgres-programs")
    }
    return programs
  }
}

/// 128 bits in hexadecimal, for servers that live for a minute.
func randomPassword() -> String {
  String(UInt64.random(in: .min ... .max), radix: 16) + String(UInt64.random(in: .min ... .max), radix: 16)
}
