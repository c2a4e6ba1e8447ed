/// One goal, and the figure of a run beside it. Machines differ, so a goal is a ratio within the run, or a size or time that hardly
/// depends on the machine (docs/performance.md, "Goals").
struct GoalFigures: Sendable, Encodable {
  enum Bound: String, Sendable, Encodable {
    case atMost = "at most"
    case atLeast = "at least"
  }

  let name: String
  let measured: Double
  let bound: Bound
  let goal: Double
  let isMet: Bool

  init(_ name: String, _ measured: Double, _ bound: Bound, _ goal: Double) {
    self.name = name
    self.measured = measured
    self.bound = bound
    self.goal = goal
    isMet = bound == .atMost ? measured <= goal : measured >= goal
  }
}
