/// A table that forgets what came long ago, without a list of uses: new entries go to the young generation, and when that is
/// full it becomes the old one, whose former entries are dropped.
///
/// A key stands in one generation alone. Reading moves nothing; `update` and `insert` bring a key among the young.
package struct TwoGenerations<Key: Hashable, Value> {
  @usableFromInline package var young: [Key: Value] = [:]
  @usableFromInline package var old: [Key: Value] = [:]
  @usableFromInline let generationMax: Int

  /// - Parameter capacity: entries held at most, 2 or more; by default its owner alone says when the young become old.
  @inlinable
  package init(capacity: Int = .max) { generationMax = Swift.max(1, capacity / 2) }

  @inlinable package var count: Int { young.count + old.count }
  /// Whether the next new key makes the young generation the old one.
  @inlinable package var isYoungFull: Bool { young.count >= generationMax }

  @inlinable
  package subscript(key: Key) -> Value? { young[key] ?? old[key] }

  /// Puts `value` among the young, in the place of what `key` had.
  @inlinable
  package mutating func insert(_ value: Value, for key: Key) {
    if let place = young.index(forKey: key) {
      young.values[place] = value
      return
    }
    old[key] = nil
    makeRoom()
    young[key] = value
  }

  /// Runs `body` on the entry of `key`, which is young from here on and begins as `initial` when there is none.
  @inlinable
  package mutating func update<Result>(
    _ key: Key, orInsert initial: @autoclosure () -> Value, _ body: (inout Value) -> Result
  ) -> Result {
    if let place = young.index(forKey: key) { return body(&young.values[place]) }
    var value = old.removeValue(forKey: key) ?? initial()
    makeRoom()
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

  @inlinable
  @discardableResult
  package mutating func removeValue(forKey key: Key) -> Value? {
    young.removeValue(forKey: key) ?? old.removeValue(forKey: key)
  }

  @inlinable
  package mutating func removeAll() { (young, old) = ([:], [:]) }

  /// Makes the young generation the old one.
  /// - Parameter keepsYoung: false where the young ones are too old as well.
  @inlinable
  package mutating func turn(keepsYoung: Bool = true) {
    old = keepsYoung ? young : [:]
    young = [:]
  }

  @inlinable
  mutating func makeRoom() {
    if young.count >= generationMax { turn() }
  }
}

extension TwoGenerations: Sendable where Key: Sendable, Value: Sendable {}
