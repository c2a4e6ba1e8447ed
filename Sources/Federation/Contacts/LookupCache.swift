import RelayCore
import RelayWork

/// The latest answers of one peer about tokens that it was asked for, also that it does not know them.
///
/// Bounded in number: the last `entriesMax / 2` findings are there for all of their life.
struct LookupCache: Sendable {
  enum Finding: Sendable, Equatable {
    case known(ListedAccount)
    case unknown
  }

  private struct Entry {
    let finding: Finding
    let asked: Timestamp
  }

  private let life: Duration
  private var entries: TwoGenerations<ContactToken, Entry>

  /// - Parameter entriesMax: 2 at least.
  init(entriesMax: Int = 200_000, life: Duration = .seconds(60)) {
    entries = TwoGenerations(capacity: entriesMax)
    self.life = life
  }

  var count: Int { entries.count }

  /// - Returns: nil when the peer was not asked within the cache's life.
  func finding(for token: ContactToken, at now: Timestamp) -> Finding? {
    guard let entry = entries[token] else { return nil }
    // Should the clock have been set back, nobody knows how old an entry is.
    let age = Duration.milliseconds(now.millis - entry.asked.millis)
    return age >= .zero && age < life ? entry.finding : nil
  }

  mutating func remember(_ finding: Finding, of token: ContactToken, at now: Timestamp) {
    entries.insert(Entry(finding: finding, asked: now), for: token)
  }
}
