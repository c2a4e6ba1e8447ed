/// A table that forgets what was not used for long: a full young generation becomes the old one, whose former entries
/// are dropped. No list of uses is kept.
struct TwoGenerations<Key: Hashable, Value> {
  private var young: [Key: Value] = [:]
  private var old: [Key: Value] = [:]
  private let generationSize: Int

  /// - Parameter capacity: entries held at most.
  init(capacity: Int) { generationSize = max(1, capacity / 2) }

  /// Runs `body` on the entry of `key`, which begins as `initial` when there is none.
  mutating func update<Result>(
    _ key: Key, orInsert initial: @autoclosure () -> Value, _ body: (inout Value) -> Result
  ) -> Result {
    if let place = young.index(forKey: key) { return body(&young.values[place]) }
    var value = old.removeValue(forKey: key) ?? initial()
    if young.count >= generationSize {
      old = young
      young = [:]
    }
    let result = body(&value)
    young[key] = value
    return result
  }

  /// Runs `body` on the entry of `key`, if there is one.
  mutating func updateExisting(_ key: Key, _ body: (inout Value) -> Void) {
    if let place = young.index(forKey: key) {
      body(&young.values[place])
    } else if let place = old.index(forKey: key) {
      body(&old.values[place])
    }
  }
}
