import RelayCore
import TestTags
import Testing

@Suite(.tags(.unit)) struct LineBudgetTests {
  @Test func `so many lines at once, then so many a second, and the next line says how many there were not`() {
    let start = ContinuousClock.now
    let budget = LineBudget(atOnce: 3, perSecond: 2, now: start)
    #expect((0..<5).map { _ in budget.take(now: start) } == [0, 0, 0, nil, nil])
    #expect(budget.take(now: start + .milliseconds(400)) == nil)
    #expect(budget.take(now: start + .milliseconds(600)) == 3)
    #expect(budget.take(now: start + .milliseconds(700)) == nil)
    let later = start + .seconds(1000)
    #expect((0..<4).map { _ in budget.take(now: later) } == [1, 0, 0, nil])
  }
}
