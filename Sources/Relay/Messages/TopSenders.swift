package import RelayCore
import Synchronization

/// The accounts of this relay that send most through this process, of the last minute or two (docs/operating.md, "relay
/// top"). It knows how much, and nothing of what or to whom.
package final class TopSenders: SenderRanking {
  private struct Window {
    var messages = HeavyHitters<AccountNumber>(capacity: TopSenders.capacity)
    let began: ContinuousClock.Instant
  }
  private struct State {
    var present: Window
    var former: Window?
  }

  private let state: Mutex<State>
  private let now: @Sendable () -> ContinuousClock.Instant

  package init(now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }) {
    self.now = now
    state = Mutex(State(present: Window(began: now())))
  }

  /// Notes messages that were accepted from `account`, one for each device that they are for.
  package func note(_ messages: Int, from account: AccountNumber) {
    let now = now()
    state.withLock { state in
      Self.turn(&state, at: now)
      state.present.messages.add(messages, to: account)
    }
  }

  package func ranking(of count: Int) -> RankedSenders {
    let now = now()
    return state.withLock { state in
      Self.turn(&state, at: now)
      var sums: [AccountNumber: Int] = [:]
      for window in [state.former, state.present].compactMap(\.self) {
        for entry in window.messages.top(Self.capacity) { sums[entry.key, default: 0] += entry.weight }
      }
      let began = state.former?.began ?? state.present.began
      let ranked = sums.sorted { ($0.value, $1.key) > ($1.value, $0.key) }.prefix(count)
      return RankedSenders(seconds: (now - began) / .seconds(1), senders: ranked.map { ($0.key, $0.value) })
    }
  }

  private static func turn(_ state: inout State, at now: ContinuousClock.Instant) {
    let age = now - state.present.began
    guard age >= window else { return }
    state.former = age < window * 2 ? state.present : nil
    state.present = Window(began: now)
  }

  private static let window = Duration.seconds(60)
  private static let capacity = 128
}

/// The keys that weigh most in a stream, in bounded room: Space-Saving (Metwally, Agrawal and El Abbadi, 2005).
///
/// A key that has more than a `capacity`-th of all weight is among them; a weight is never too low, and too high by
/// what the lightest key had when the key came, at most.
private struct HeavyHitters<Key: Hashable & Sendable>: Sendable {
  private var weights: [Key: Int] = [:]
  private let capacity: Int

  /// - Parameter capacity: keys that are held.
  init(capacity: Int) { self.capacity = max(1, capacity) }

  mutating func add(_ weight: Int, to key: Key) {
    if let place = weights.index(forKey: key) {
      weights.values[place] += weight
    } else if weights.count < capacity {
      weights[key] = weight
    } else if let lightest = weights.min(by: { $0.value < $1.value }) {
      weights[lightest.key] = nil
      weights[key] = lightest.value + weight
    }
  }

  /// The heaviest first, at most `count`.
  func top(_ count: Int) -> [(key: Key, weight: Int)] {
    Array(weights.map { (key: $0.key, weight: $0.value) }.sorted { $0.weight > $1.weight }.prefix(count))
  }
}
