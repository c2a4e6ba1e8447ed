// The PostgreSQL back end. Each contract has a file of its own in this folder; below them lie PostgresConnection (one
// shared connection and its life), PostgresPipeline (what is on its way) and the Reactor (the thread).

package import Logging
package import RelayCore
import RelayWork

/// All durable stores in one PostgreSQL database, which any number of processes share.
///
/// Commits are synchronous. Six pipelined connections on one thread, since what shares one waits for what is ahead:
/// reads never wait for a commit, messages for no other write, nobody for the directory's long lists or for the message
/// numbers of device notifications, and the feed of the directory's changes for no lock that those wait for.
/// `.unavailable` of a call that was on its way when a connection broke leaves open whether the server had committed:
/// every call is safe to repeat.
package final class PostgresStorage: Storage {
  typealias RemovalCalls = BatchedCalls<[MailboxRemoval], Result<Set<MailboxPlace>, StoreError>>

  let reads: PostgresConnection
  let writes: PostgresConnection
  let bulk: PostgresConnection
  private let feed: PostgresConnection
  private let notifications: PostgresConnection
  private let inserts: PostgresConnection
  let batcher: MessageBatcher
  let removals: RemovalCalls
  let draws: DrawCalls
  let days: PostgresMailboxDays
  let maintenance: PostgresMaintenance
  let sealer: SecretSealer
  let steps: [SchemaStep]
  package let judge: ClockJudge
  package let refusals: WriteRefusals
  let knownTokens = KnownTokens()
  let knownCodes = KnownKey(.pendingCodes) { PendingCodes(key: $0) }
  let knownHandles = KnownKey(.accountHandles) { AccountHandles(key: $0) }
  let copies = PostgresCopies()
  private let reactor: Reactor

  /// Begins to connect and returns; calls wait a moment for the first attempt. Runs no migration.
  ///
  /// - Parameters:
  ///   - url: `postgres://` or `postgresql://`, one or several hosts, as libpq reads it.
  ///   - sealer: seals signaling keys, and the key of contact tokens.
  ///   - steps: of the schema; those of another build for tests of two builds side by side.
  ///   - present: the URL as it is now, asked for before each attempt to connect: passwords change. nil, or what libpq
  ///     cannot read, leaves `url`.
  /// - Throws: `.unavailable` when the URL cannot be read or the system gives no thread.
  package init(
    url: String, sealer: SecretSealer = .none, steps: [SchemaStep] = SchemaStep.postgres, logger: Logger,
    present: @escaping @Sendable () -> String? = { nil }
  ) throws(StoreError) {
    let target = try PostgresTarget(url: url, present: present)
    let reactor = try Reactor(name: "postgres")
    let days = PostgresMailboxDays()
    let judge = ClockJudge()
    let refusals = WriteRefusals()
    let primary = PostgresPrimary()
    let connect = { (purpose: String) in
      PostgresConnection(
        target: target, settings: .init(purpose: purpose), reactor: reactor, logger: logger, refusals: refusals,
        primary: primary, connected: { days.forget() })
    }
    let maintenance = PostgresMaintenance(target: target, reactor: reactor, logger: logger, primary: primary)
    let inserts = connect("messages")
    self.sealer = sealer
    self.steps = steps
    self.reactor = reactor
    self.maintenance = maintenance
    self.inserts = inserts
    self.days = days
    self.judge = judge
    self.refusals = refusals
    reads = connect("reads")
    let writes = connect("writes")
    self.writes = writes
    bulk = connect("bulk")
    feed = connect("directory")
    notifications = connect("notifications")
    batcher = MessageBatcher { envelopes, watched throws(StoreError) in
      try await PostgresStorage.insert(
        envelopes, watched, layout: primary.layout.value(over: inserts), seenDay: judge.seenDay, over: inserts,
        maintenance: maintenance)
    }
    removals = RemovalCalls(bounds: Self.removalBounds, size: { .init(items: $0.count) }) { batch in
      await PostgresStorage.remove(
        batch, layout: primary.layout.value(over: writes), days: days, seenDay: judge.seenDay, over: writes,
        maintenance: maintenance)
    }
    draws = DrawCalls(bounds: Self.drawBounds, size: { .init(items: $0.devices.count) }) { batch in
      await PostgresStorage.draw(batch, layout: primary.layout.value(over: writes), over: writes)
    }
  }

  /// How the store lies, as each connection learns it.
  var layout: PostgresLayout { get async { await maintenance.primary.layout.value(over: reads) } }

  var connections: [PostgresConnection] { [reads, writes, bulk, feed, notifications, inserts] }

  /// Asks on the connections that messages depend on; a long list of the directory's is no reason to be sent nobody.
  package func ping() async throws(StoreError) {
    do throws(PostgresError) {
      for connection in [reads, writes, inserts] { _ = try await connection.read("ping", "SELECT 1") }
    } catch {
      throw error.storeError
    }
  }

  /// Fills a temporary table, which the commit drops. Its rows need new blocks of the disk; a row of an existing table
  /// may fit into an old block.
  package func tryWriting() async throws(StoreError) {
    _ = try await writeBulk([
      PostgresStep("room_place", "SELECT set_config('temp_tablespaces', '', true)"),
      PostgresStep(.once("CREATE TEMPORARY TABLE relay_room (filler text) ON COMMIT DROP")),
      PostgresStep(.once("INSERT INTO relay_room SELECT repeat('x', 1000) FROM generate_series(1, 32)")),
    ])
  }

  package func close() async {
    copies.close()
    for connection in connections { await connection.close() }
    await reactor.stop()
  }

  /// Reads what is committed, beside other reads.
  func read(_ name: StaticString, _ query: PostgresQuery) async throws(StoreError) -> PostgresResult {
    do throws(PostgresError) { return try await reads.read(name, query) } catch { throw error.storeError }
  }

  func read(_ step: PostgresStep) async throws(StoreError) -> PostgresResult {
    do throws(PostgresError) { return try await reads.read(step) } catch { throw error.storeError }
  }

  /// Reads what may take long, apart from other reads.
  func readBulk(_ step: PostgresStep) async throws(StoreError) -> PostgresResult {
    do throws(PostgresError) { return try await bulk.read(step) } catch { throw error.storeError }
  }

  func readBulk(_ name: StaticString, _ query: PostgresQuery) async throws(StoreError) -> PostgresResult {
    do throws(PostgresError) { return try await bulk.read(name, query) } catch { throw error.storeError }
  }

  /// Reads what the directory in memory follows, apart from all that may wait for a lock.
  func readFeed(_ name: StaticString, _ query: PostgresQuery) async throws(StoreError) -> PostgresResult {
    do throws(PostgresError) { return try await feed.read(name, query) } catch { throw error.storeError }
  }

  /// Runs steps that may take long as one transaction, apart from other writes.
  /// - Returns: a result for each.
  func writeBulk(_ steps: [PostgresStep]) async throws(StoreError) -> [PostgresResult] {
    do throws(PostgresError) { return try await bulk.transaction(steps) } catch { throw error.storeError }
  }

  /// Runs steps that take a message number of device notifications, or may take long, as one transaction: whoever
  /// waits for the number waits with his like alone.
  /// - Returns: a result for each.
  func writeNotifications(_ steps: [PostgresStep]) async throws(StoreError) -> [PostgresResult] {
    do throws(PostgresError) { return try await notifications.transaction(steps) } catch { throw error.storeError }
  }

  func read(_ steps: [PostgresStep]) async throws(StoreError) -> [PostgresResult] {
    do throws(PostgresError) { return try await reads.reads(steps) } catch { throw error.storeError }
  }

  /// Runs one statement as a transaction.
  func write(_ name: StaticString, _ query: PostgresQuery) async throws(StoreError) -> PostgresResult {
    do throws(PostgresError) { return try await writes.write(name, query) } catch { throw error.storeError }
  }

  /// Runs one statement that waits for no lock, in one transaction with others of its kind.
  func sharedWrite(_ name: StaticString, _ query: PostgresQuery) async throws(StoreError) -> PostgresResult {
    do throws(PostgresError) { return try await writes.sharedWrite(name, query) } catch { throw error.storeError }
  }

  /// Runs steps as one transaction.
  /// - Returns: a result for each.
  func write(_ steps: [PostgresStep]) async throws(StoreError) -> [PostgresResult] {
    do throws(PostgresError) { return try await writes.transaction(steps) } catch { throw error.storeError }
  }
}
