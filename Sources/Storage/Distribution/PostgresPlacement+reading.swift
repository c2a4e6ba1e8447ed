// Reading how a store lies. The catalogs of Citus are there only behind `CREATE EXTENSION`.

package import RelayCore

extension PostgresStorage {
  /// For `relay doctor` and plans.
  package func placement() async throws(StoreError) -> PostgresPlacement {
    try await PostgresPlacement.read { steps throws(StoreError) in
      do throws(PostgresError) { return try await self.bulk.reads(steps) } catch { throw error.storeError }
    }
  }
}

extension PostgresConnection {
  /// - Throws: `.unavailable` at a worker of a cluster: a schema made there would be nobody's.
  func demandNoWorker() async throws(StoreError) {
    let catalog = try await run("SELECT to_regclass('pg_catalog.pg_dist_local_group') IS NOT NULL")
    guard try catalog?.first({ (row) throws(StoreError) in try row.boolean() }) == true else { return }
    let group = try await run("SELECT groupid <> 0 FROM pg_catalog.pg_dist_local_group")
    guard try group?.first({ (row) throws(StoreError) in try row.boolean() }) == true else { return }
    throw .unavailable(reason: "this server is a worker of a Citus cluster: let storage.url name the coordinator")
  }
}

extension PostgresPlacement {
  typealias Query = @Sendable ([PostgresStep]) async throws(StoreError) -> [PostgresResult]

  static func read(over query: Query) async throws(StoreError) -> PostgresPlacement {
    guard let found = try await query([server, tables]).fixed(2) else {
      throw .corrupted(reason: "the server says nothing of its extensions")
    }
    var row = found[0].cursor(row: 0)
    let (offered, version, isLoaded) = (try row.boolean(), row.optionalText(), try row.boolean())
    let mayCreate = try row.boolean()
    let alone = try found[1].all { (row) throws(StoreError) in
      Table(name: try row.text(), spread: nil, localBytes: try row.bigint())
    }
    guard let version else {
      return PostgresPlacement(
        citus: !offered ? .absent : isLoaded ? .loaded : .notLoaded, mayCreate: mayCreate, isWorker: false, nodes: [],
        tables: alone)
    }
    return try await read(over: query, version: version, mayCreate: mayCreate, tables: alone)
  }

  private static func read(
    over query: Query, version: String, mayCreate: Bool, tables alone: [Table]
  ) async throws(StoreError) -> PostgresPlacement {
    guard let found = try await query([group, nodes, spreads]).fixed(3) else {
      throw .corrupted(reason: "the server says nothing of its cluster")
    }
    var row = found[0].cursor(row: 0)
    let isWorker = try row.integer() != 0
    let spreads = try found[2].all { (row) throws(StoreError) in
      (
        name: try row.text(),
        spread: Table.Spread(column: row.optionalText(), group: Int(try row.integer()), shards: Int(try row.bigint()))
      )
    }
    let tables = alone.map { table in
      Table(
        name: table.name, spread: spreads.first { $0.name == table.name }?.spread, localBytes: table.localBytes)
    }
    // It asks every server: only where there is something to measure.
    let sizes = spreads.isEmpty || isWorker ? [:] : try await Self.sizes(over: query)
    let answers = isWorker ? [:] : try await Self.answers(over: query)
    let nodes = try found[1].all { (row) throws(StoreError) in
      let (address, isCoordinator) = (try row.text(), try row.boolean())
      let answer = answers[address]
      return Node(
        address: address, isCoordinator: isCoordinator, isActive: try row.boolean(),
        answers: isCoordinator || answer != nil, preparesTransactions: answer?.first != "0",
        unsafeSettings: answer?.dropFirst().map(String.init) ?? [], takesShards: try row.boolean(),
        shards: Int(try row.bigint()), bytes: sizes[address] ?? 0)
    }
    return PostgresPlacement(
      citus: .created(version: version), mayCreate: mayCreate, isWorker: isWorker, nodes: nodes, tables: tables)
  }

  /// By the addresses of the workers that answer: `max_prepared_transactions`, then the settings that are off.
  private static func answers(over query: Query) async throws(StoreError) -> [String: [Substring]] {
    let found = try await query([settings])
    let rows = try found.first?.all { (row) throws(StoreError) in (try row.text(), try row.text()) } ?? []
    return Dictionary(rows) { $1 }.mapValues { $0.split(separator: " ") }
  }

  /// Bytes by the address of a server.
  private static func sizes(over query: Query) async throws(StoreError) -> [String: Int64] {
    let found = try await query([sizes])
    let rows = try found.first?.all { (row) throws(StoreError) in (try row.text(), try row.bigint()) } ?? []
    return Dictionary(rows) { $0 + $1 }
  }

  /// Columns: whether the files are there; the version in this database; whether the library is loaded, which alone
  /// knows its settings; whether our role may create the extension.
  private static let server = PostgresStep(
    once: """
      SELECT a.name IS NOT NULL, e.extversion::text, current_setting('citus.shard_count', true) IS NOT NULL,
        (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)
          OR coalesce((
            SELECT bool_or(v.trusted) FROM pg_available_extension_versions AS v
            WHERE v.name = 'citus' AND v.version = a.default_version
          ), false) AND has_database_privilege(current_database(), 'CREATE')
      FROM (SELECT) AS one LEFT JOIN pg_available_extensions AS a ON a.name = 'citus'
      LEFT JOIN pg_extension AS e ON e.extname = 'citus'
      """)

  /// Columns: name, bytes of it and of its partitions at this server. A partitioned table itself has none, nor has one
  /// without a row.
  private static let tables = PostgresStep(
    once: """
      SELECT n.name, (
        SELECT coalesce(sum(pg_table_size(r.oid)) FILTER (WHERE pg_relation_size(r.oid) > 0), 0)::bigint FROM (
          SELECT to_regclass(n.name)::oid AS oid
          UNION ALL SELECT i.inhrelid FROM pg_inherits AS i WHERE i.inhparent = to_regclass(n.name)
        ) AS r
      )
      FROM unnest(\(each: DistributedTables.names)) WITH ORDINALITY AS n (name, number)
      WHERE to_regclass(n.name) IS NOT NULL
      ORDER BY n.number
      """)

  private static let group = PostgresStep(once: "SELECT groupid::integer FROM pg_dist_local_group")

  private static let nodes = PostgresStep(
    once: """
      SELECT n.nodename || ':' || n.nodeport, n.groupid = 0, n.isactive, n.shouldhaveshards, (
        SELECT count(*) FROM pg_dist_placement AS p JOIN pg_dist_shard AS s ON s.shardid = p.shardid
        WHERE p.groupid = n.groupid AND s.logicalrelid = (
          SELECT min(t.logicalrelid::oid) FROM pg_dist_partition AS t
          WHERE t.logicalrelid IN (SELECT to_regclass(name) FROM unnest(\(each: DistributedTables.names)) AS name)
        )
      )
      FROM pg_dist_node AS n WHERE n.noderole = 'primary' ORDER BY n.groupid
      """)

  private static let spreads = PostgresStep(
    once: """
      SELECT n.name, column_to_column_name(p.logicalrelid, p.partkey)::text, p.colocationid::integer,
        (SELECT count(*) FROM pg_dist_shard AS s WHERE s.logicalrelid = p.logicalrelid)
      FROM unnest(\(each: DistributedTables.names)) AS n (name)
      JOIN pg_dist_partition AS p ON p.logicalrelid = to_regclass(n.name)
      """)

  /// A relay sets `synchronous_commit` of its own sessions, and these end at the coordinator.
  private static let settings = PostgresStep(
    once: """
      SELECT nodename || ':' || nodeport, result FROM run_command_on_workers($$
        SELECT concat_ws(' ', current_setting('max_prepared_transactions'),
          CASE WHEN NOT current_setting('fsync')::boolean THEN 'fsync' END,
          CASE WHEN NOT current_setting('full_page_writes')::boolean THEN 'full_page_writes' END,
          CASE WHEN current_setting('synchronous_commit') IN ('off', 'local') THEN 'synchronous_commit' END)
      $$) WHERE success
      """)

  private static let sizes = PostgresStep(
    once: """
      SELECT nodename || ':' || nodeport, coalesce(sum(shard_size), 0)::bigint FROM citus_shards
      WHERE citus_table_type = 'distributed' GROUP BY 1
      """)
}

extension [PostgresResult] {
  /// nil unless there are `count` results, each with a row where one is certain: the first.
  fileprivate func fixed(_ count: Int) -> [PostgresResult]? {
    self.count == count && self[0].rowCount == 1 ? self : nil
  }
}
