import Synchronization

/// The requests that were answered with success, as many tasks at once write them down.
package final class Ledger<Entry: Hashable & Sendable>: Sendable {
  private let entries = Mutex<[Entry]>([])
  package init() {}

  package func add(_ entry: Entry) { entries.withLock { $0.append(entry) } }
  /// In the order in which they were written.
  package var all: [Entry] { entries.withLock { $0 } }
  /// From here on it is empty.
  package func forget() { entries.withLock { $0 = [] } }
  package var count: Int { entries.withLock { $0.count } }
}
