/// A table that forgets what came long ago, without a list of uses: new entries go to the young generation, and when
/// that is full it becomes the old one, whose former entries are dropped.
///
/// Reading moves nothing, `update` brings an entry back among the young. A key that stands in both generations has its
/// young entry.
public struct TwoGenerations<Key: Hashable, Value> {
  @usableFromInline var newer: [Key: Value] = [:]
  @usableFromInline var older: [Key: Value] = [:]
  @usableFromInline let generationMax: Int

  /// - Parameter capacity: entries held at most, 2 or more; by default its owner alone says when the young become old.
  @inlinable
  public init(capacity: Int = .max) { generationMax = Swift.max(1, capacity / 2) }

  @inlinable public var young: [Key: Value] { newer }
  @inlinable public var old: [Key: Value] { older }
  /// A key that stands in both generations is counted twice.
  @inlinable public var count: Int { newer.count + older.count }
  /// Whether the next new key makes the young generation the old one.
  @inlinable public var isYoungFull: Bool { newer.count >= generationMax }

  @inlinable
  public subscript(key: Key) -> Value? { newer[key] ?? older[key] }

  /// Puts `value` among the young. An old entry of `key` stays.
  @inlinable
  public mutating func insert(_ value: Value, for key: Key) {
    if isYoungFull, newer[key] == nil { turn() }
    newer[key] = value
  }

  /// Runs `body` on the entry of `key`, which is young from here on and begins as `initial` when there is none.
  @inlinable
  public mutating func update<Result>(
    _ key: Key, orInsert initial: @autoclosure () -> Value, _ body: (inout Value) -> Result
  ) -> Result {
    if let place = newer.index(forKey: key) { return body(&newer.values[place]) }
    var value = older.removeValue(forKey: key) ?? initial()
    if isYoungFull { turn() }
    let result = body(&value)
    newer[key] = value
    return result
  }

  /// Runs `body` on the entry of `key`, if there is one, where it stands.
  @inlinable
  public mutating func updateExisting(_ key: Key, _ body: (inout Value) -> Void) {
    if let place = newer.index(forKey: key) {
      body(&newer.values[place])
    } else if let place = older.index(forKey: key) {
      body(&older.values[place])
    }
  }

  /// - Returns: the entry that `key` had.
  @inlinable
  @discardableResult
  public mutating func removeValue(forKey key: Key) -> Value? {
    let former = older.removeValue(forKey: key)
    return newer.removeValue(forKey: key) ?? former
  }

  @inlinable
  public mutating func removeAll() { (newer, older) = ([:], [:]) }

  @inlinable
  public mutating func removeOld() { older = [:] }

  /// Makes the young generation the old one.
  /// - Parameters:
  ///   - keepsYoung: false where the young ones are too old as well.
  ///   - reservesRoom: for as many new ones.
  @inlinable
  public mutating func turn(keepsYoung: Bool = true, reservesRoom: Bool = false) {
    older = keepsYoung ? newer : [:]
    newer = reservesRoom ? Dictionary(minimumCapacity: older.count) : [:]
  }
}

extension TwoGenerations: Sendable where Key: Sendable, Value: Sendable {}
