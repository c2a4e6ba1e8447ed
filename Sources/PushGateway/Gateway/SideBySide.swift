/// Runs `count` pieces of work side by side, at most `widthMax` at a time; the others begin in their order, each as one
/// ends.
/// - Returns: what each came to, in their order.
func sideBySide<Value: Sendable>(
  _ count: Int, widthMax: Int, _ work: @escaping @Sendable (Int) async -> Value
) async -> [Value] {
  await withTaskGroup(of: (Int, Value).self) { group in
    var values = [Value?](repeating: nil, count: count)
    var begun = 0
    func begin() {
      guard begun < count else { return }
      let index = begun
      begun += 1
      group.addTask { (index, await work(index)) }
    }
    for _ in 0..<min(count, max(1, widthMax)) { begin() }
    for await (index, value) in group {
      values[index] = value
      begin()
    }
    return values.compactMap(\.self)
  }
}
