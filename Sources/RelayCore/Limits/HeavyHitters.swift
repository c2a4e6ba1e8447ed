/// The keys that weigh most in a stream, in bounded room: Space-Saving (Metwally, Agrawal and El Abbadi, 2005).
///
/// A key that has more than a `capacity`-th of all weight is among them; a weight is never too low, and too high by
/// what the lightest key had when the key came, at most.
package struct HeavyHitters<Key: Hashable & Sendable>: Sendable {
  private var weights: [Key: Int] = [:]
  private let capacity: Int

  /// - Parameter capacity: keys that are held.
  package init(capacity: Int) { self.capacity = max(1, capacity) }

  package mutating func add(_ weight: Int, to key: Key) {
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
  package func top(_ count: Int) -> [(key: Key, weight: Int)] {
    Array(weights.map { (key: $0.key, weight: $0.value) }.sorted { $0.weight > $1.weight }.prefix(count))
  }
}
