// Time that passes by a clock that is set: never under a push that is being made.

import Foundation
import GRDB
import RelayCore
import TestSupport

/// The store's rows that its contract does not tell.
enum StoredRows: Sendable {
  case embedded(path: String)
  case postgres(PostgresServer, url: String)

  /// - Parameter query: gives integers alone, in words that both kinds of store know.
  func integers(_ query: String) async throws -> [[Int64]] {
    switch self {
    case .embedded(let path):
      var configuration = Configuration()
      configuration.readonly = true
      configuration.busyMode = .timeout(60)
      let queue = try DatabaseQueue(path: path, configuration: configuration)
      let rows = try await queue.read { db in
        try Row.fetchAll(db, sql: query).map { row in
          try (0..<row.count).map { try row.decode(Int64.self, atIndex: $0) }
        }
      }
      try queue.close()
      return rows
    case .postgres(let server, let url):
      let text = try await Loopback.blocking { try server.sql(query, in: url) }
      return text.split(separator: "\n").map { $0.split(separator: "|").compactMap { Int64($0) } }
    }
  }
}

extension NotificationSite {
  /// Pushes, and events that an account's server is to have next.
  private static let waitingQuery = """
    SELECT id, attempts, due, claimed FROM notification_jobs
    UNION ALL
    SELECT 0, a.event_attempts, a.event_due, 0 FROM notification_accounts AS a
    WHERE a.event_url IS NOT NULL AND EXISTS (
      SELECT 1 FROM notification_events AS e WHERE e.account = a.name AND e.number > a.events_pushed
    )
    """
  /// A worker that has claimed a push for longer will not make it any more: an attempt begins while its claim holds,
  /// and ends when no more patience is left. The rest is time that a slow machine may take.
  private static let claimIsDead = NotificationLimits.claim + patience + .seconds(60)

  /// Waits for `condition`, and lets time pass: to the moment at which the next push is due, and only while all
  /// existing ones wait for theirs. So a push that is under way, or about to be, is never due a second time.
  func passTime(until what: String, _ condition: () async throws -> Bool) async throws {
    var claims: [[Int64]: ContinuousClock.Instant] = [:]
    try await eventually(what, within: .seconds(1200), every: .milliseconds(100)) {
      if try await condition() { return true }
      if let next = try await nextTime(&claims) { clock.set(next) }
      return false
    }
  }

  /// - Parameter claims: since when each claim has been seen.
  /// - Returns: nil while something is under way or due, and when nothing waits.
  private func nextTime(_ claims: inout [[Int64]: ContinuousClock.Instant]) async throws -> Timestamp? {
    let (now, seen) = (clock.now.millis, ContinuousClock.now)
    var times: [Int64] = []
    for row in try await rows.integers(Self.waitingQuery) {
      guard row.count == 4 else { throw TestFailure("a row of \(row.count)") }
      var time = row[2]
      if row[3] != 0 {
        // PostgreSQL ends claims by its own clock, the embedded store by this one: there a push that was claimed too
        // late to be begun waits for it.
        guard case .embedded = rows else { return nil }
        let since = claims[row] ?? seen
        claims[row] = since
        if row[3] > now, seen - since < Self.claimIsDead { return nil }
        time = max(time, row[3])
      }
      guard time > now else { return nil }
      times.append(time)
    }
    return times.min().map { Timestamp(millis: $0) }
  }
}
