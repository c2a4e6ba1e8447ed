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
    let present = young[key]
    var value = present ?? old.removeValue(forKey: key) ?? initial()
    if present == nil, young.count >= generationSize {
      old = young
      young = [:]
    }
    let result = body(&value)
    young[key] = value
    return result
  }

  /// Runs `body` on the entry of `key`, if there is one.
  mutating func updateExisting(_ key: Key, _ body: (inout Value) -> Void) {
    if var value = young[key] {
      body(&value)
      young[key] = value
    } else if var value = old[key] {
      body(&value)
      old[key] = value
    }
  }
}
