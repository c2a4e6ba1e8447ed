extension BenchmarkReport {
  /// Empty where nothing was measured that has a goal.
  var goalTable: [String] {
    guard !goals.isEmpty else { return [] }
    let rows = goals.map { goal in
      [
        goal.name, Self.number(goal.measured, 2), "\(goal.bound.rawValue) \(Self.number(goal.goal, 1))",
        goal.isMet ? "yes" : "no",
      ]
    }
    return [""] + Self.table(["goal, CPU unless it says otherwise", "measured", "goal", "met"], rows)
  }
}
