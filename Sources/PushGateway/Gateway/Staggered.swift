/// Runs `count` pieces of work side by side, begun in their order: each when the one before has ended, or has had its
/// head start.
///
/// So a provider that answers sees the devices of a notification in their order, as the reference sends them, and one
/// device that is slow keeps no other waiting for long.
/// - Parameter widthMax: pieces under way at a time.
/// - Returns: what each came to, in their order.
func staggered<Value: Sendable>(
  _ count: Int, headStart: Duration, widthMax: Int, _ work: @escaping @Sendable (Int) async -> Value
) async -> [Value] {
  await withTaskGroup(of: StaggeredEvent<Value>.self) { group in
    var values = [Value?](repeating: nil, count: count)
    var begun = 0
    var underWay = 0
    func begin() {
      let index = begun
      begun += 1
      underWay += 1
      group.addTask { .ended(index, await work(index)) }
      guard begun < count else { return }
      group.addTask {
        // Cancelled when all has ended: then nobody listens.
        try? await Task.sleep(for: headStart)
        return .headStartOver(index)
      }
    }
    if count > 0 { begin() }
    for await event in group {
      switch event {
      case .ended(let index, let value):
        values[index] = value
        underWay -= 1
        // A free place goes to the next, whoever it was that ended.
        if begun < count, index == begun - 1 || underWay == widthMax - 1 { begin() }
      case .headStartOver(let index):
        if index == begun - 1, begun < count, underWay < widthMax { begin() }
      }
      if begun == count, underWay == 0 { group.cancelAll() }
    }
    return values.compactMap(\.self)
  }
}

private enum StaggeredEvent<Value: Sendable>: Sendable {
  case ended(Int, Value)
  case headStartOver(Int)
}
