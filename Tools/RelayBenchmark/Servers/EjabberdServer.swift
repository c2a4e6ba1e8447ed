import ChildProcesses
import Foundation
import Glibc

/// ejabberd as Debian packages it, in a folder of its own and over a database of the benchmark's PostgreSQL.
struct EjabberdServer: Sendable {
  static let domain = "bench.test"
  static let database = "ejabberd"
  static let password = "p"

  let process: ChildProcess
  let port: Int

  private static let control = "/usr/sbin/ejabberdctl"
  private static let schema = "/usr/share/ejabberd/sql/pg.sql"
  /// Where Debian has it and its libraries, by the machine.
  private static let libraries = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"]

  /// Whether the packages `ejabberd` and `erlang-p1-pgsql` are there.
  static var isInstalled: Bool {
    let files = FileManager.default
    guard files.isExecutableFile(atPath: control), files.fileExists(atPath: schema) else { return false }
    return libraries.contains { folder in
      // Without the folder it is another machine's.
      ((try? files.contentsOfDirectory(atPath: folder)) ?? []).contains { $0.hasPrefix("ejabberd-") }
    }
  }

  /// - Parameter users: who can log in, all with `password`.
  static func start(in workshop: Workshop, over postgres: PostgresServer, users: [String]) async throws -> Self {
    try await prepareDatabase(postgres, users: users)
    let user = getuid() == 0 ? "ejabberd" : nil
    let folder = try workshop.makeFolder("ejabberd", for: user)
    let port = try await FreePorts.find(1)[0]
    let configuration = folder.appending(path: "ejabberd.yml")
    try Data(Self.configuration(port: port, postgres: postgres).utf8).write(to: configuration)
    if let user { try workshop.hand(configuration, to: user) }
    let process = try await workshop.serve(
      "ejabberd",
      [
        "/usr/bin/env", "erl", "+P", "250000", "+Q", "65536", "-noinput", "-mnesia", "dir",
        "\"\(folder.appending(path: "spool").path)\"", "-s", "ejabberd",
      ],
      environment: [
        "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": folder.path, "ERL_LIBS": libraries.joined(separator: ":"),
        "EJABBERD_CONFIG_PATH": configuration.path, "EJABBERD_LOG_PATH": folder.appending(path: "ejabberd.log").path,
        "ERL_CRASH_DUMP_SECONDS": "0",
      ], user: user)
    try await waitUntil("ejabberd", while: process, within: .seconds(60)) { try await Probe.connect(port: port) }
    return EjabberdServer(process: process, port: port)
  }

  /// Its driver of PostgreSQL need not know how our server asks for passwords: for this database none is asked for.
  private static func prepareDatabase(_ postgres: PostgresServer, users: [String]) async throws {
    try await postgres.with("postgres") { database in
      try database.execute("CREATE ROLE \(Self.database) SUPERUSER LOGIN")
      try database.execute("CREATE DATABASE \(Self.database)")
      let rules = try database.text("SHOW hba_file")
      try database.execute(
        """
        COPY (VALUES ('host \(Self.database) \(Self.database) 127.0.0.1/32 trust'),
          ('host all all 127.0.0.1/32 scram-sha-256')) TO '\(rules)'
        """)
      try database.execute("SELECT pg_reload_conf()")
    }
    let schema = try String(contentsOfFile: Self.schema, encoding: .utf8)
    let rows = users.map { "('\($0)', '\(Self.password)')" }.joined(separator: ", ")
    try await postgres.with(Self.database) { database in
      try database.execute(schema)
      try database.execute("INSERT INTO users (username, password) VALUES \(rows)")
    }
  }

  private static func configuration(port: Int, postgres: PostgresServer) -> String {
    """
    loglevel: 2
    hosts: [\(domain)]
    default_db: sql
    sql_type: pgsql
    sql_server: 127.0.0.1
    sql_port: \(postgres.port)
    sql_database: \(database)
    sql_username: \(database)
    sql_password: ""
    auth_method: [sql]
    auth_password_format: plain
    listen:
      -
        port: \(port)
        ip: 127.0.0.1
        module: ejabberd_c2s
        shaper: none
        max_fsm_queue: 100000
        backlog: 1024
    shaper_rules:
      unbounded: infinity
    modules:
      mod_ping: {}
      mod_offline:
        access_max_user_messages: unbounded

    """
  }
}
