import TestTags
import Testing

@testable import RelayHTTP

/// The decision whether there is room for one more request, with a clock that the tests set.
@Suite(.tags(.unit)) struct OverloadRuleTests {
  private static let start = ContinuousClock.now
  private static func at(_ millis: Int) -> ContinuousClock.Instant { start + .milliseconds(millis) }
  private static func rule() -> OverloadRule { OverloadRule(now: start) }

  /// A machine that answers `perSecond` is asked `offered` a second, in steps of a millisecond.
  private struct Machine {
    var rule = OverloadRuleTests.rule()
    var millis = 0
    private var unanswered = 0
    private var (offeredRest, answeredRest) = (0, 0)

    struct Outcome {
      var (offered, refused, answered) = (0, 0, 0)
      var longestQueue = 0
    }

    mutating func run(millis duration: Int, offered: Int, perSecond: Int) -> Outcome {
      var outcome = Outcome()
      for _ in 0..<duration {
        millis += 1
        offeredRest += offered
        while offeredRest >= 1000 {
          offeredRest -= 1000
          outcome.offered += 1
          guard rule.admits(now: OverloadRuleTests.at(millis)) else {
            outcome.refused += 1
            continue
          }
          rule.began()
          unanswered += 1
        }
        answeredRest += perSecond
        while answeredRest >= 1000 {
          answeredRest -= 1000
          guard unanswered > 0 else { continue }
          unanswered -= 1
          outcome.answered += 1
          rule.ended(now: OverloadRuleTests.at(millis))
        }
        outcome.longestQueue = max(outcome.longestQueue, unanswered)
      }
      return outcome
    }
  }

  @Test(arguments: [100, 1000, 3900]) func `a relay that keeps up refuses nobody`(offered: Int) {
    var machine = Machine()
    let outcome = machine.run(millis: 20_000, offered: offered, perSecond: 4000)
    #expect(outcome.refused == 0 && outcome.offered == offered * 20)
  }

  @Test(arguments: [2, 5]) func `a relay asked for several times its capacity goes on at its full rate`(times: Int) {
    var machine = Machine()
    let begun = machine.run(millis: 4000, offered: 4000 * times, perSecond: 4000)
    #expect(begun.refused > 0)
    let outcome = machine.run(millis: 10_000, offered: 4000 * times, perSecond: 4000)
    #expect(outcome.answered >= 39_900)
    // A quarter of a second's answers, and what falls due in a step.
    #expect(outcome.longestQueue <= 1000 + 4 * times)
    #expect(outcome.refused > outcome.offered - 41_000)
  }

  @Test func `behind an overload everybody is served at once again`() {
    var machine = Machine()
    _ = machine.run(millis: 5000, offered: 20_000, perSecond: 4000)
    #expect(machine.rule.isOverloaded)
    _ = machine.run(millis: 500, offered: 1000, perSecond: 4000)
    #expect(!machine.rule.isOverloaded)
    let outcome = machine.run(millis: 10_000, offered: 1000, perSecond: 4000)
    #expect(outcome.refused == 0 && outcome.longestQueue < 10)
  }

  @Test func `a burst is let in, however idle the relay was before`() {
    var machine = Machine()
    _ = machine.run(millis: 5000, offered: 10, perSecond: 4000)
    // 1,500 requests within 5 ms.
    let burst = machine.run(millis: 5, offered: 300_000, perSecond: 4000)
    #expect(burst.offered == 1500 && burst.refused == 0)
    let after = machine.run(millis: 1000, offered: 10, perSecond: 4000)
    #expect(after.refused == 0)
  }

  @Test func `while a store stands still few wait, and all are let in again as soon as it answers`() {
    var machine = Machine()
    _ = machine.run(millis: 3000, offered: 2000, perSecond: 4000)
    _ = machine.run(millis: 3000, offered: 2000, perSecond: 0)
    let standing = machine.run(millis: 1000, offered: 2000, perSecond: 0)
    #expect(standing.answered == 0 && standing.refused == standing.offered)
    _ = machine.run(millis: 2000, offered: 2000, perSecond: 4000)
    let after = machine.run(millis: 2000, offered: 2000, perSecond: 4000)
    #expect(after.refused == 0)
  }

  @Test func `requests that wait for somebody else are no load`() {
    var rule = Self.rule()
    for _ in 0..<5000 {
      rule.began()
      rule.waitBegan()
    }
    let beside = (0..<20).map { second in rule.admits(now: Self.at(second * 1000)) }
    #expect(!beside.contains(false))
    for _ in 0..<5000 { rule.waitEnded(now: Self.at(20_000)) }
    let atFirst = rule.admits(now: Self.at(20_000))
    let later = rule.admits(now: Self.at(20_600))
    #expect(atFirst && !later)
    for _ in 0..<5000 { rule.ended(now: Self.at(20_700)) }
    let behind = rule.admits(now: Self.at(20_700))
    #expect(behind)
  }
}
