import ChildProcesses
import Foundation
import TestSupport
import TestTags
import Testing

/// `relay storage distribute` where it can do nothing: the operator is told what to do.
@Suite(.tags(.processes)) struct StorageDistributeRefusalTests {
  @Test func `an embedded store is not distributed`() async throws {
    try await RelayOperator.with { site in
      for arguments in [[], ["--plan"]] {
        let result = try await site.run(["storage", "distribute"] + arguments)
        #expect(result.exit == .code(1))
        #expect(result.errors.contains("relay storage move"), "\(result.errors)")
      }
      #expect(!FileManager.default.fileExists(atPath: site.folder + "/relay.sqlite"))
      let shards = try await site.run(["storage", "distribute", "--shards", "0"])
      #expect(shards.exit == .code(64))
    }
  }

  /// Whether Citus is installed here or not: this server has not loaded it.
  @Test func `a server without Citus stays as it is, and relays are not kept from it`() async throws {
    try await Cluster.with { cluster in
      let result = try await cluster.site.run(["storage", "distribute"])
      #expect(result.exit == .code(1))
      #expect(result.errors.contains("shared_preload_libraries = 'citus'"), "\(result.errors)")
      let plan = try await cluster.site.run(["storage", "distribute", "--plan", "--json"])
      #expect(plan.exit == .code(0), "\(plan.errors)")
      let found = try plan.json(StorageDistributeTests.Result.self)
      #expect(found.citus == nil && found.obstacle?.contains("shared_preload_libraries") == true)
      #expect(found.tables.count == 6 && found.tables.allSatisfy { !$0.isDistributed } && found.nodes.isEmpty)
      let placement = try await StorageDistributeTests.placement(cluster.site)
      #expect(placement.map(\.outcome) == ["skip"])
      try await cluster.serve(1) { _ in }
    }
  }
}

/// `relay storage distribute` on a coordinator with two workers.
@Suite(.tags(.processes), .enabled(if: CitusServers.isOffered, "PostgreSQL here does not offer Citus"))
struct StorageDistributeTests {
  struct Result: Decodable {
    struct Node: Decodable {
      let address: String
      let isCoordinator: Bool
      let shards: Int
      let bytes: Int64
    }
    struct Table: Decodable {
      let table: String
      let isDistributed: Bool
      let shards: Int
    }
    let citus: String?
    let nodes: [Node]
    let tables: [Table]
    let skew: Double?
    let steps: [String]
    let obstacle: String?
  }

  /// The doctor's findings on where the store lies.
  static func placement(
    _ site: RelayOperator, _ overrides: [String: String] = [:]
  ) async throws -> [DoctorTests.Diagnosis] {
    try await site.run(["doctor", "--json"], overrides: overrides).json([DoctorTests.Diagnosis].self)
      .filter { $0.group == "storage" && ["placement", "servers"].contains($0.check) }
  }

  /// Runs `body` with an operator over a new database of the coordinator.
  private func withCluster(
    knowsWorkers: Bool = true, _ body: (RelayOperator, CitusServers, String) async throws -> Void
  ) async throws {
    try await MachineRoom.with {
      let servers = try await Loopback.blocking { try CitusServers.shared() }
      let database = try await Loopback.blocking { try servers.createDatabase(knowsWorkers: knowsWorkers) }
      try await RelayOperator.with(settings: Cluster.unlimited.merging(["RELAY_STORAGE_URL": database]) { $1 }) {
        site in
        try await site.relay("migrate", "run")
        try await body(site, servers, database)
      }
    }
  }

  @discardableResult
  private func sql(_ text: String, _ servers: CitusServers, _ database: String) async throws -> String {
    try await Loopback.blocking { try servers.coordinator.sql(text, in: database) }
  }

  /// 20 accounts with 100 keys and 50 messages each.
  private static let rows = """
    INSERT INTO one_time_prekeys (account, device, key_id, public_key)
    SELECT n, 1, k, '\\x01' FROM generate_series(1, 20) AS n, generate_series(1, 100) AS k;
    INSERT INTO messages (account, device, sequence, day, type, source, source_device, sent, message, fingerprint)
    SELECT n, 1, nextval('message_sequence'), relay_arrival_day(NULL), 1, 1, 1, k, '\\x01', gen_random_uuid()
    FROM generate_series(1, 20) AS n, generate_series(1, 50) AS k;
    """

  @Test func `an operator is led from one server to three, and a second run finds nothing to do`() async throws {
    try await withCluster(knowsWorkers: false) { site, servers, database in
      try await sql(Self.rows, servers, database)
      // The extension is there afterwards, and the rest waits for the workers.
      let alone = try await site.run(["storage", "distribute"])
      #expect(alone.exit == .code(1))
      #expect(alone.errors.contains("citus_set_coordinator_host") && alone.errors.contains("citus_add_node"))
      try await Loopback.blocking { try servers.addWorkers(to: database) }

      let relay = try await site.serve()
      let beside = try await site.run(["storage", "distribute"])
      #expect(beside.exit == .code(1) && beside.errors.contains("stop all of them"), "\(beside.errors)")
      #expect(await relay.terminate() == .code(0))

      #expect(try await site.relay("storage", "distribute", "--plan").contains("into 4 shards"))
      let plan = try await site.run(["storage", "distribute", "--plan", "--shards", "8", "--json"])
      let planned = try plan.json(Result.self)
      #expect(planned.obstacle == nil && planned.steps.count == 8, "\(planned.steps)")
      let done = try await site.run(["storage", "distribute", "--shards", "8", "--json"])
      #expect(done.exit == .code(0), "\(done.errors)")
      let result = try done.json(Result.self)
      #expect(result.steps.isEmpty && result.tables.allSatisfy { $0.isDistributed && $0.shards == 8 })
      #expect(result.nodes.filter { !$0.isCoordinator }.map(\.shards) == [4, 4])
      let counts = "SELECT (SELECT count(*) FROM one_time_prekeys), (SELECT count(*) FROM messages)"
      #expect(try await sql(counts, servers, database) == "2000|1000")

      let again = try await site.run(["storage", "distribute"])
      #expect(again.exit == .code(0) && again.output.contains("6 tables in 8 shards"), "\(again.errors)")
      let placement = try await Self.placement(site)
      #expect(placement.map(\.outcome) == ["ok"], "\(placement)")
      #expect(try await site.relay("audit").contains("storage distribute"))
    }
  }

  @Test func `a distribution that was broken off goes on, and no relay starts in between`() async throws {
    try await withCluster { site, servers, database in
      try await sql(Self.rows, servers, database)
      // It stops at the last table: somebody holds it, by a name that is not counted as another client's.
      let holding = Task {
        try await sql(
          "SET application_name = 'citus_internal_test'; BEGIN; LOCK TABLE messages IN ROW EXCLUSIVE MODE; SELECT pg_sleep(120)",
          servers,
          database)
      }
      let distributed = "SELECT string_agg(logicalrelid::text, ' ') FROM pg_dist_partition"
      try await eventually("the table is held", within: .seconds(30)) {
        try await sql(
          "SELECT count(*) FROM pg_locks WHERE relation = 'messages'::regclass AND mode = 'RowExclusiveLock'",
          servers, database) == "1"
      }
      let running = Task { try await site.run(["storage", "distribute"], within: .seconds(120)) }
      try await eventually("all others are distributed", within: .seconds(60)) {
        try await sql(distributed, servers, database).contains("acknowledged")
      }
      // The server ends its session, as the end of its process would.
      let end = { (name: String) in
        _ = try await sql(
          """
          SELECT pg_terminate_backend(pid) FROM pg_stat_activity
          WHERE datname = current_database() AND application_name = '\(name)'
          """, servers, database)
      }
      try await end("relay")
      let killed = try await running.value
      #expect(killed.exit == .code(1), "\(killed.errors)")
      try await end("citus_internal_test")
      _ = await holding.result
      #expect(try await sql("SELECT count(*) FROM pg_dist_partition", servers, database) != "0")

      let refused = try await site.startServing()
      #expect(await refused.exit(within: .seconds(60)) == .code(1))
      #expect(refused.log().contains("relay storage distribute"), "\(refused.log())")
      let placement = try await Self.placement(site)
      #expect(placement.first?.outcome == "warn" && placement.first?.text.contains("messages") == true)
      let done = try await site.run(["storage", "distribute"])
      #expect(done.exit == .code(0), "\(done.errors)")
      #expect(try await sql("SELECT count(*) FROM messages", servers, database) == "1000")
      let relay = try await site.serve()
      #expect(await relay.terminate() == .code(0))
    }
  }

  @Test func `days come and go, a former schema runs again, and other commands say what they cannot do`() async throws {
    try await withCluster { site, servers, database in
      try await site.relay("storage", "distribute", "--shards", "8")
      let days = "SELECT count(*) FROM pg_dist_partition WHERE logicalrelid::text LIKE 'messages\\_%'"
      #expect(try await sql(days, servers, database) == "2")
      // A day that lacks is made, and is distributed: by the next run of the steps.
      try await sql(
        "DO $$ BEGIN EXECUTE (SELECT format('DROP TABLE %s', max(inhrelid::regclass::text)) FROM pg_inherits "
          + "WHERE inhparent = 'messages'::regclass); END $$", servers, database)
      #expect(try await sql(days, servers, database) == "1")
      try await site.relay("migrate", "run")
      #expect(try await sql(days, servers, database) == "2")

      let worker = [
        "RELAY_STORAGE_URL": servers.workers[0].url(database: String(database.split(separator: "/").last ?? ""))
      ]
      for command in [["storage", "distribute"], ["migrate", "run"]] {
        let result = try await site.run(command, overrides: worker)
        #expect(result.exit == .code(1) && result.errors.contains("coordinator"), "\(result.errors)")
      }
      let backup = try await site.run(["backup", site.folder + "/relay.tar"])
      #expect(backup.output.contains("citus_create_restore_point"), "\(backup.output)")
      for server in servers.workers { #expect(backup.output.contains(":\(server.port)"), "\(backup.output)") }
      try await RelayOperator.with { embedded in
        try await embedded.relay("migrate", "run")
        let moved = try await embedded.run(["storage", "move", "--to", database])
        #expect(moved.exit == .code(1) && moved.errors.contains("relay storage distribute"), "\(moved.errors)")
      }
    }
  }
}
