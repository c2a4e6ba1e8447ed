// Which days a mailbox can have messages of. A read that has to look into each of thirty partitions costs ten times one
// that looks into the few that matter.

import RelayCore
import Synchronization

/// For each mailbox that was read lately, a day before which it holds nothing.
///
/// Messages arrive on the database's present day only, so what was once true of a mailbox stays true, whatever other
/// processes do. Only a database that lost its latest commits, in a failover, can bring older messages back: a new
/// connection therefore begins with `forget`. And should its clock step back, what is known expires within the hour.
final class PostgresMailboxDays: Sendable {
  /// A day as PostgreSQL counts it, from 2000-01-01.
  typealias Day = Int32

  static let beginning: Day = 0
  /// Some 10 MB; beyond it all are learned anew.
  private static let mailboxesMax = 100_000
  /// How far behind today the known day may fall before it is worth learning again.
  private static let staleDays: Day = 2

  /// By this process's monotonic clock: how long messages may stay unseen after the database's clock stepped back.
  static let lifetime: Duration = .seconds(3600)

  private struct Known {
    let day: Day
    let expires: ContinuousClock.Instant
  }

  private struct State {
    var days: [DeviceAddress: Known] = [:]
    /// The latest that the database called today.
    var today = PostgresMailboxDays.beginning
  }

  private let state = Mutex(State())

  /// The day before which `mailbox` holds nothing, and whether the next read should be asked for more.
  func first(of mailbox: DeviceAddress, now: ContinuousClock.Instant = .now) -> (day: Day, isWorthLearning: Bool) {
    state.withLock { state in
      guard let known = state.days[mailbox], now < known.expires else { return (Self.beginning, true) }
      return (known.day, known.day + Self.staleDays < state.today)
    }
  }

  /// Remembers a read of `mailbox` from its beginning, which left nothing out.
  /// - Parameter oldest: the day of the first message by sequence, or an earlier one; nil when there was none.
  func learned(_ mailbox: DeviceAddress, oldest: Day?, today: Day, now: ContinuousClock.Instant = .now) {
    state.withLock { state in
      if state.days.count >= Self.mailboxesMax { state.days.removeAll(keepingCapacity: true) }
      // One less: around midnight, sequences and days of two processes may rise in different order.
      state.days[mailbox] = Known(day: min(oldest ?? today, today) - 1, expires: now + Self.lifetime)
      state.today = max(state.today, today)
    }
  }

  func forget() {
    state.withLock { $0.days.removeAll() }
  }
}
