/// `TwoGenerations` that turn by age too: an entry is remembered for `life` at least unless there are too many, and for
/// twice as long at most.
package struct AgedGenerations<Key: Hashable, Value, Instant: InstantProtocol> {
  private var table: TwoGenerations<Key, Value>
  private let life: Instant.Duration
  /// When the young generation did; nil before the first call.
  private var began: Instant?

  /// - Parameters:
  ///   - capacity: entries held at most, 2 or more.
  ///   - began: by default the moment of the first call.
  package init(capacity: Int, life: Instant.Duration, began: Instant? = nil) {
    table = TwoGenerations(capacity: capacity)
    self.life = life
    self.began = began
  }

  package var count: Int { table.count }
  package var isYoungFull: Bool { table.isYoungFull }

  /// Whether `key` stands among the young.
  package func isYoung(_ key: Key) -> Bool { table.young[key] != nil }

  package mutating func value(of key: Key, at now: Instant) -> Value? {
    turnIfOld(at: now)
    return table[key]
  }

  /// Puts `value` among the young, in the place of what `key` had.
  package mutating func insert(_ value: Value, for key: Key, at now: Instant) {
    turnIfOld(at: now)
    if table.isYoungFull, table.young[key] == nil { turn(at: now) }
    table.insert(value, for: key)
  }

  package mutating func removeValue(forKey key: Key) { table.removeValue(forKey: key) }

  /// Turns where it is time.
  /// - Returns: whether it did.
  @discardableResult
  package mutating func turnIfOld(at now: Instant) -> Bool {
    guard let began else {
      self.began = now
      return false
    }
    guard began.duration(to: now) >= life else { return false }
    turn(at: now)
    return true
  }

  /// Makes the young generation the old one; after two lives without a turn nothing is young enough to be kept.
  package mutating func turn(at now: Instant) {
    table.turn(keepsYoung: began.map { $0.duration(to: now) < life * 2 } ?? true)
    began = now
  }
}

extension AgedGenerations: Sendable where Key: Sendable, Value: Sendable, Instant: Sendable {}
