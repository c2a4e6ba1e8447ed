// The embedded back end: one SQLite file that one `relay serve` works on, while the commands of other processes may
// write beside it. Each contract has a file of its own in this folder.

import Dispatch
import Foundation
import GRDB
package import RelayCore

/// All durable stores in one SQLite database.
///
/// Commits are synchronous (WAL, `synchronous = FULL`): on return of a method its transaction survives a power cut.
/// Reads and writes run on the queues that GRDB owns, never on the shared thread pool.
package final class SQLiteStorage: Storage {
  let pool: DatabasePool
  let clock: WallClock
  let sealer: SecretSealer
  let steps: [SchemaStep]
  package let judge = ClockJudge()
  package let refusals = WriteRefusals()
  let knownTokens = KnownTokens()
  let knownCodes = KnownKey(.pendingCodes) { PendingCodes(key: $0) }
  let knownHandles = KnownKey(.accountHandles) { AccountHandles(key: $0) }
  let batcher: MessageBatcher

  /// Opens the database at `path`, or creates it with permissions 0600, its folder with 0700. Runs no migration.
  ///
  /// Blocks for the time that takes: meant for the start of a process.
  /// - Parameters:
  ///   - sealer: encrypts what must not lie in clear in the file.
  ///   - steps: of the schema; those of another build for tests of two builds on one file.
  ///   - clock: tells the day of arrival of a message.
  /// - Throws: `.unavailable` when the file cannot be opened, `.corrupted` when it is no database.
  package init(
    path: String, sealer: SecretSealer = .none, steps: [SchemaStep] = SchemaStep.embedded, clock: WallClock
  ) throws(StoreError) {
    try SQLiteFile.prepare(path)
    let pool: DatabasePool
    do {
      pool = try Self.open(path)
    } catch {
      throw StoreError(embedded: error)
    }
    self.pool = pool
    self.clock = clock
    self.sealer = sealer
    self.steps = steps
    let judged = JudgedClock(clock, by: judge)
    batcher = MessageBatcher { [refusals] envelopes, watched throws(StoreError) in
      try await Self.write(envelopes, watched, day: judged.arrival().day, to: pool, noting: refusals)
    }
  }

  package func ping() async throws(StoreError) {
    try await read { db in _ = try db.row("SELECT 1") }
  }

  /// In two transactions: SQLite does not write pages that one transaction takes and gives back.
  package func tryWriting() async throws(StoreError) {
    try await write { db in
      try db.execute(sql: Self.emptyRoom)
      try db.execute(sql: "CREATE TABLE relay_room (filler BLOB); INSERT INTO relay_room VALUES (zeroblob(32000))")
    }
    try await write { db in try db.execute(sql: Self.emptyRoom) }
  }

  private static let emptyRoom = "DROP TABLE IF EXISTS relay_room"

  package func close() async {
    let pool = pool
    await withCheckedContinuation { (done: CheckedContinuation<Void, Never>) in
      DispatchQueue.global().async {
        // A failure means that a statement still runs: its connection closes with the last reference to it.
        try? pool.close()
        done.resume()
      }
    }
  }

  /// Reads one consistent state of the database.
  func read<T: Sendable>(_ body: @Sendable (Database) throws -> T) async throws(StoreError) -> T {
    do { return try await pool.read(body) } catch { throw StoreError(embedded: error) }
  }

  /// Runs `body` as one transaction that holds the write lock from its start.
  func write<T: Sendable>(_ body: @Sendable (Database) throws -> T) async throws(StoreError) -> T {
    do { return try await pool.write(body) } catch { throw refused(error) }
  }

  /// As `write`, and waits for the lock as long as opening may: many processes may start on a new file at once.
  func writeAtStart<T: Sendable>(_ body: @Sendable (Database) throws -> T) async throws(StoreError) -> T {
    do {
      return try await pool.writeWithoutTransaction { db in
        try db.execute(sql: "PRAGMA busy_timeout = \(Int(Self.startSeconds * 1000))")
        // If it failed, this process would wait longer for others.
        defer { try? db.execute(sql: "PRAGMA busy_timeout = \(Int(Self.busySeconds * 1000))") }
        var result: T?
        try db.inTransaction {
          result = try body(db)
          return .commit
        }
        return try Fields.valid(result)
      }
    } catch {
      throw refused(error)
    }
  }

  private func refused(_ error: any Error) -> StoreError {
    refusals.note(error)
    return StoreError(embedded: error)
  }

  private static func open(_ path: String) throws -> DatabasePool {
    var configuration = Configuration()
    // More than the default asks for a priority that the kernel gives root alone, and says so at each start.
    configuration.qos = .default
    configuration.label = "relay"
    // Commands of other processes write beside `relay serve`: wait for them.
    configuration.busyMode = .timeout(busySeconds)
    configuration.maximumReaderCount = 4
    configuration.prepareDatabase { db in
      // A connection that only reads may not change it, and need not.
      if !db.configuration.readonly { try db.execute(sql: "PRAGMA journal_size_limit = \(journalBytesMax)") }
    }
    let pool = try openWaiting(path, configuration)
    // After opening, not while preparing: GRDB itself lowers it to NORMAL when it switches WAL on.
    try pool.writeWithoutTransaction { db in try db.execute(sql: "PRAGMA synchronous = FULL") }
    return pool
  }

  /// Opens the pool, again while another process that opens the same new file holds the lock for the switch to WAL:
  /// SQLite does not call the busy handler there.
  private static func openWaiting(_ path: String, _ configuration: Configuration) throws -> DatabasePool {
    let end = ContinuousClock.now + .seconds(startSeconds)
    while true {
      do {
        return try DatabasePool(path: path, configuration: configuration)
      } catch let error as DatabaseError where error.resultCode == .SQLITE_BUSY && ContinuousClock.now < end {
        Thread.sleep(forTimeInterval: 0.02)
      }
    }
  }

  private static let busySeconds = 5.0
  private static let startSeconds = 30.0
  /// The size that the log shrinks to after a checkpoint.
  private static let journalBytesMax = 64 << 20
}

extension WriteRefusals {
  /// Notes why a write failed, if the disk is to blame.
  func note(_ error: any Error) {
    guard let error = error as? DatabaseError else { return }
    switch error.resultCode {
    case .SQLITE_FULL: refused("SQLite refuses writes: its disk is full")
    case .SQLITE_IOERR, .SQLITE_READONLY:
      refused("SQLite refuses writes: its disk failed (\(error.extendedResultCode))")
    default: break
    }
  }
}

extension StoreError {
  /// Turns a failure of GRDB, or of reading a row, into the caller's error: the result code and SQLite's fixed text
  /// for it.
  init(embedded error: any Error) {
    switch error {
    case let error as StoreError:
      self = error
    case let error as DatabaseError:
      let reason = "SQLite \(error.extendedResultCode)"
      self = Self.passing.contains(error.resultCode) ? .unavailable(reason: reason) : .corrupted(reason: reason)
    case is CancellationError:
      self = .unavailable(reason: "the caller gave up")
    default:
      self = .corrupted(reason: "\(type(of: error))")
    }
  }

  /// Locked, full, unreadable for now, interrupted, or closed (misuse): nothing was stored, and nothing is damaged.
  private static let passing: [ResultCode] = [
    .SQLITE_BUSY, .SQLITE_LOCKED, .SQLITE_FULL, .SQLITE_IOERR, .SQLITE_CANTOPEN, .SQLITE_READONLY, .SQLITE_NOMEM,
    .SQLITE_INTERRUPT, .SQLITE_ABORT, .SQLITE_PROTOCOL, .SQLITE_PERM, .SQLITE_NOLFS, .SQLITE_MISUSE,
  ]
}
