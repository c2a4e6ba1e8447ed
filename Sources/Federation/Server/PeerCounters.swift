import Metrics
import RelayCore
import Synchronization

/// One metric's counters, by peer and perhaps one more word; handles are made once and kept.
final class PeerCounters: Sendable {
  private struct Key: Hashable {
    let peer: RelayName
    let word: String?
  }

  private let label: String
  private let dimension: String?
  /// Bounded by the names that this operator gave to peers, and by the words that stand in the code.
  private let handles = Mutex<[Key: Counter]>([:])

  /// - Parameter dimension: what the word is called; nil when there is none.
  init(_ label: String, by dimension: String? = nil) {
    self.label = label
    self.dimension = dimension
  }

  func add(_ amount: Int = 1, of peer: RelayName, _ word: String? = nil) {
    let key = Key(peer: peer, word: word)
    let counter = handles.withLock { handles in
      let found = handles[key] ?? make(key)
      handles[key] = found
      return found
    }
    counter.increment(by: amount)
  }

  private func make(_ key: Key) -> Counter {
    var dimensions = [("peer", key.peer.text)]
    if let dimension, let word = key.word { dimensions.append((dimension, word)) }
    return Counter(label: label, dimensions: dimensions)
  }
}
