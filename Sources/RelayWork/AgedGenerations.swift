/// `TwoGenerations` that turn by age too: an entry is remembered for `life` at least unless there are too many, and for
/// twice as long at most. Nothing is brought back among the young by being used.
public struct AgedGenerations<Key: Hashable, Value, Instant: InstantProtocol> {
  @usableFromInline var table: TwoGenerations<Key, Value>
  @usableFromInline let life: Instant.Duration
  /// When the young generation did; nil before the first call.
  @usableFromInline var began: Instant?

  /// - Parameters:
  ///   - capacity: entries held at most, 2 or more.
  ///   - began: by default the moment of the first call.
  @inlinable
  public init(capacity: Int, life: Instant.Duration, began: Instant? = nil) {
    table = TwoGenerations(capacity: capacity)
    self.life = life
    self.began = began
  }

  @inlinable public var young: [Key: Value] { table.young }
  @inlinable public var old: [Key: Value] { table.old }
  @inlinable public var count: Int { table.count }

  @inlinable
  public mutating func value(of key: Key, at now: Instant) -> Value? {
    turnIfOld(at: now)
    return table[key]
  }

  /// Puts `value` among the young. An old entry of `key` stays.
  @inlinable
  public mutating func insert(_ value: Value, for key: Key, at now: Instant) {
    turnIfOld(at: now)
    if table.isYoungFull, table.young[key] == nil { turn(at: now) }
    table.insert(value, for: key)
  }

  @inlinable
  public mutating func removeValue(forKey key: Key) { table.removeValue(forKey: key) }

  /// Makes the young generation the old one where it is full, or has lasted for a life.
  /// - Returns: whether it did.
  @inlinable
  @discardableResult
  public mutating func turnIfDue(at now: Instant) -> Bool {
    if turnIfOld(at: now) { return true }
    guard table.isYoungFull else { return false }
    turn(at: now)
    return true
  }

  /// Makes the young generation the old one where it has lasted for a life.
  /// - Returns: whether it did.
  @inlinable
  @discardableResult
  public mutating func turnIfOld(at now: Instant) -> Bool {
    guard let began else {
      self.began = now
      return false
    }
    guard began.duration(to: now) >= life else { return false }
    turn(at: now)
    return true
  }

  @inlinable
  mutating func turn(at now: Instant) {
    // After two lives without a turn nothing is young enough.
    table.turn(keepsYoung: began.map { $0.duration(to: now) < life * 2 } ?? true)
    began = now
  }
}

extension AgedGenerations: Sendable where Key: Sendable, Value: Sendable, Instant: Sendable {}
