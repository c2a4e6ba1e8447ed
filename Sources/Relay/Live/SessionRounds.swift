/// Goes round many members within one interval, a few at each step: one timer for all, and no moment at which all are
/// due.
///
/// A member's id says when its turn is: ids are drawn at random.
struct SessionRounds<Member> {
  private var steps: [[UInt64: Member]]
  private var nextStep = 0

  /// - Parameter count: steps of one round, 1 or more.
  init(steps count: Int) { steps = Array(repeating: [:], count: count) }

  mutating func insert(_ member: Member, id: UInt64) { steps[step(of: id)][id] = member }
  mutating func remove(id: UInt64) { steps[step(of: id)][id] = nil }

  /// The members whose turn it is now, in no order. As many calls as there are steps name each member once.
  mutating func next() -> [Member] {
    defer { nextStep = (nextStep + 1) % steps.count }
    return Array(steps[nextStep].values)
  }

  private func step(of id: UInt64) -> Int { Int(id % UInt64(steps.count)) }
}
