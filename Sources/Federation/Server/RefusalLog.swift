import Synchronization

/// Keeps refusals from flooding the log: one line a minute for each address and reason, with how many it stands for.
final class RefusalLog: Sendable {
  private let tally = Mutex(RefusalTally())

  /// Counts a refusal.
  /// - Parameters:
  ///   - remote: an address.
  ///   - reason: one of a few words or sentences, nothing that the other side wrote.
  /// - Returns: nil while a line of the last minute stands for it; else how many refusals the line stands for that is
  ///   to be written now: this one, and those since the last line.
  func count(remote: String, reason: String) -> Int? {
    tally.withLock { $0.count(RefusalTally.Key(remote: remote, reason: reason), at: .now) }
  }
}

/// Refusals by address and reason, bounded in number.
struct RefusalTally {
  struct Key: Hashable {
    let remote: String
    let reason: String
  }
  private struct Entry {
    var lastLine: ContinuousClock.Instant
    var unwritten = 0
  }

  private var entries: [Key: Entry] = [:]

  static let interval = Duration.seconds(60)
  /// All refusals from addresses beyond this number share one line a minute.
  static let keysMax = 1024
  static let others = Key(remote: "others", reason: "many addresses")

  /// - Returns: as `RefusalLog.count`.
  mutating func count(_ key: Key, at now: ContinuousClock.Instant) -> Int? {
    if entries[key] == nil, entries.count >= Self.keysMax { forget(at: now) }
    let key = entries[key] != nil || entries.count < Self.keysMax ? key : Self.others
    guard var entry = entries[key] else {
      entries[key] = Entry(lastLine: now)
      return 1
    }
    defer { entries[key] = entry }
    entry.unwritten += 1
    guard now - entry.lastLine >= Self.interval else { return nil }
    defer { entry = Entry(lastLine: now) }
    return entry.unwritten
  }

  private mutating func forget(at now: ContinuousClock.Instant) {
    entries = entries.filter { now - $0.value.lastLine < Self.interval }
  }
}
