/// A table that forgets what came long ago, without a list of uses: new entries go to the young generation, and when that is
/// full it becomes the old one, whose former entries are dropped.
///
/// Reading moves nothing, `update` brings an entry back among the young. A key that stands in both generations has its
/// young entry.
package struct TwoGenerations<Key: Hashable, Value> {
  @usableFromInline package internal(set) var young: [Key: Value] = [:]
  @usableFromInline package internal(set) var old: [Key: Value] = [:]
  @usableFromInline let generationMax: Int

  /// - Parameter capacity: entries held at most, 2 or more; by default its owner alone says when the young become old.
  @inlinable
  package init(capacity: Int = .max) { generationMax = Swift.max(1, capacity / 2) }

  /// A key that stands in both generations is counted twice.
  @inlinable package var count: Int { young.count + old.count }
  /// Whether the next new key makes the young generation the old one.
  @inlinable package var isYoungFull: Bool { young.count >= generationMax }

  @inlinable
  package subscript(key: Key) -> Value? { young[key] ?? old[key] }

  /// Puts `value` among the young. What `key` has among the old stays.
  @inlinable
  package mutating func insert(_ value: Value, for key: Key) {
    if isYoungFull, young[key] == nil { turn() }
    young[key] = value
  }

  /// Runs `body` on the entry of `key`, which is young from here on and begins as `initial` when there is none.
  @inlinable
  package mutating func update<Result>(
    _ key: Key, orInsert initial: @autoclosure () -> Value, _ body: (inout Value) -> Result
  ) -> Result {
    if let place = young.index(forKey: key) { return body(&young.values[place]) }
    var value = old.removeValue(forKey: key) ?? initial()
    if isYoungFull { turn() }
    let result = body(&value)
    young[key] = value
    return result
  }

  /// Runs `body` on the entry of `key`, if there is one, where it stands.
  @inlinable
  package mutating func updateExisting(_ key: Key, _ body: (inout Value) -> Void) {
    if let place = young.index(forKey: key) {
      body(&young.values[place])
    } else if let place = old.index(forKey: key) {
      body(&old.values[place])
    }
  }

  /// - Returns: the entry that `key` had.
  @inlinable
  @discardableResult
  package mutating func removeValue(forKey key: Key) -> Value? {
    let old = old.removeValue(forKey: key)
    return young.removeValue(forKey: key) ?? old
  }

  @inlinable
  package mutating func removeAll() { (young, old) = ([:], [:]) }

  @inlinable
  package mutating func removeOld() { old = [:] }

  /// Makes the young generation the old one.
  /// - Parameters:
  ///   - keepsYoung: false where the young ones are too old as well.
  ///   - reservesRoom: for as many new ones.
  @inlinable
  package mutating func turn(keepsYoung: Bool = true, reservesRoom: Bool = false) {
    old = keepsYoung ? young : [:]
    young = reservesRoom ? Dictionary(minimumCapacity: old.count) : [:]
  }
}

extension TwoGenerations: Sendable where Key: Sendable, Value: Sendable {}
