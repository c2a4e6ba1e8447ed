import Metrics
import RelayCore
import RelayMetrics
import Synchronization

/// One metric's counters, by peer and perhaps one more word; handles are made once and kept.
final class PeerCounters: Sendable {
  private struct Key: Hashable {
    let peer: RelayName
    let word: String?
  }

  private let make: @Sendable (Key) -> Counter
  /// Bounded by the names that this operator gave to peers, and by the words that stand in the code.
  private let handles = Mutex<[Key: Counter]>([:])

  init(_ metric: CounterMetric<PeerLabel>) { make = { metric.counter(.peer($0.peer.text)) } }

  /// - Parameter metric: its second label is the word.
  init<Word: TextLabel>(_ metric: CounterMetric<PeerLabel, Word>) {
    make = { metric.counter(.peer($0.peer.text), Word(value: $0.word ?? "")) }
  }

  /// Counts refused requests of peers, by reason.
  static func ofRefusals() -> PeerCounters { PeerCounters(RelayMetric.peerEdge.refusals) }

  func add(_ amount: Int = 1, of peer: RelayName, _ word: String? = nil) {
    let key = Key(peer: peer, word: word)
    let counter = handles.withLock { handles in
      let found = handles[key] ?? make(key)
      handles[key] = found
      return found
    }
    counter.increment(by: amount)
  }
}
