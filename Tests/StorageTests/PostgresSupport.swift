import Logging
import RelayCore
import Synchronization
import TestSupport

@testable import Storage

extension Logger {
  /// Says nothing.
  static var quiet: Logger { Logger(label: "test") { _ in SwiftLogNoOpLogHandler() } }
}

/// Runs `body` on a store over a database of its own on the shared server, when its turn comes: no test of these within
/// another one.
func withPostgres(
  migrated: Bool = true, sealer: SecretSealer = .none,
  _ body: (PostgresStorage, PostgresServer, String) async throws -> Void
) async throws {
  await Turns.postgres.take()
  defer { Turns.postgres.giveBack() }
  let server = try await Loopback.blocking { try PostgresServer.shared() }
  let url = try await Loopback.blocking { try server.createDatabase() }
  let storage = try await PostgresStorage.connected(to: url, sealer: sealer)
  do {
    if migrated { try await storage.migrate { _ in } }
    try await body(storage, server, url)
  } catch {
    await storage.close()
    throw error
  }
  await storage.close()
}

extension PostgresStorage {
  /// A store whose connections all serve.
  ///
  /// A call waits two seconds for a connection. A machine that starts hundreds of tests may take longer to make one.
  static func connected(to url: String, sealer: SecretSealer = .none) async throws -> PostgresStorage {
    let storage = try PostgresStorage(url: url, sealer: sealer, logger: .quiet)
    do {
      for connection in storage.connections { try await connection.untilConnected() }
    } catch {
      await storage.close()
      throw error
    }
    return storage
  }

  /// As many of them as processes would open.
  static func connected(_ count: Int, to url: String) async throws -> [PostgresStorage] {
    var stores: [PostgresStorage] = []
    for _ in 0..<count { stores.append(try await connected(to: url)) }
    return stores
  }
}

extension PostgresConnection {
  /// Returns when it serves.
  func untilConnected() async throws {
    try await eventually("PostgreSQL is connected") { (try? await read("connected", "SELECT 1")) != nil }
  }
}

/// Runs `body` with a session of its own, in which a transaction may stay open.
func withSession(_ url: String, _ body: (PostgresConnection) async throws -> Void) async throws {
  let reactor = try Reactor(name: "session")
  let connection = PostgresConnection(
    target: try PostgresTarget(url: url), settings: .init(purpose: "session", reconnects: false), reactor: reactor,
    logger: .quiet)
  do {
    try await body(connection)
  } catch {
    await connection.close()
    await reactor.stop()
    throw error
  }
  await connection.close()
  await reactor.stop()
}

extension PostgresServer {
  /// Adds the partition of `daysAgo` to `table`, as a relay of that day would have.
  func addDay(_ daysAgo: Int, to table: String, in url: String) throws {
    try sql(
      """
      DO $$
      DECLARE past date := (now() AT TIME ZONE 'UTC')::date - \(daysAgo);
      BEGIN
        EXECUTE format('CREATE TABLE %I PARTITION OF \(table) FOR VALUES FROM (%L) TO (%L)',
          '\(table)' || to_char(past, '_YYYYMMDD'), past, past + 1);
      END $$
      """, in: url)
  }

  /// The days that `table` has partitions for, relative to today.
  func days(of table: String, in url: String) throws -> [Int] {
    try sql(
      """
      SELECT to_date(right(relname, 8), 'YYYYMMDD') - (now() AT TIME ZONE 'UTC')::date
      FROM pg_inherits JOIN pg_class ON oid = inhrelid WHERE inhparent = '\(table)'::regclass ORDER BY 1
      """, in: url
    ).split(separator: "\n").compactMap { Int($0) }
  }
}

final class Collected<Element: Sendable>: Sendable {
  private let elements = Mutex<[Element]>([])
  var values: [Element] { elements.withLock { $0 } }
  func add(_ element: Element) { elements.withLock { $0.append(element) } }
}

final class Counter: Sendable {
  private let count = Atomic<Int>(0)
  var value: Int { count.load(ordering: .relaxed) }
  func add() { count.add(1, ordering: .relaxed) }
}
