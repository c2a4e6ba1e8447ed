import RelayCore
import TestTags
import Testing

/// Which clocks are believed, and what removal by age makes of them.
@Suite(.tags(.unit)) struct SeenTimeTests {
  private static let day = Timestamp.millisPerDay
  private let noon = Timestamp(millis: 20_000 * day + day / 2)

  private func days(_ count: Double) -> Duration { .milliseconds(Int64(count * Double(Self.day))) }
  private func time(_ count: Double) -> Timestamp { noon.adding(days(count)) }
  private var ordinary: SeenTime { SeenTime.never.advanced(to: noon) }

  @Test func `the first clock is believed, whatever it says`() {
    #expect(SeenTime.never.believes(.init(millis: .max)) && SeenTime.never.removalTime(at: noon) == noon)
    #expect(ordinary == SeenTime(seen: noon, cleared: noon))
  }

  @Test func `a clock that is at most a day ahead is followed`() {
    for ahead in [0, 0.04, 1] {
      #expect(ordinary.believes(time(ahead)) && ordinary.removalTime(at: time(ahead)) == time(ahead))
      #expect(ordinary.advanced(to: time(ahead)) == SeenTime(seen: time(ahead), cleared: time(ahead)))
    }
  }

  @Test func `a clock further ahead removes nothing, and moves nothing`() {
    for ahead in [1.01, 40, 100_000] {
      let judged = ordinary.advanced(to: time(ahead))
      #expect(judged == ordinary && !judged.believes(time(ahead)))
      #expect(judged.removalTime(at: time(ahead)) == noon && judged.lead(of: time(ahead)) == days(ahead))
      #expect(judged.arrivalTime(at: time(ahead)) == time(ahead), "what comes is kept longer, not shorter")
    }
  }

  @Test func `a clock that steps back moves nothing back, and the next right time is no jump`() {
    let judged = ordinary.advanced(to: time(-40))
    #expect(judged == ordinary && judged.removalTime(at: time(-40)) == time(-40))
    #expect(judged.arrivalTime(at: time(-40)) == noon, "what comes meanwhile ends no earlier than it should")
    #expect(judged.lag(of: time(-40)) == days(40) && judged.lag(of: time(-0.5)) == .zero)
    #expect(judged.believes(time(0.1)) && judged.lead(of: time(0.1)) == .zero)
  }

  @Test func `after a jump and back, a clock may creep a day a run and no further`() {
    var judged = ordinary.advanced(to: time(40)).advanced(to: noon)
    #expect(judged == ordinary)
    var removed = judged.removalTime(at: noon)
    for run in 1...10 {
      // 20 hours ahead of what was believed last, again and again.
      let clock = time(Double(run) * 20 / 24)
      judged = judged.advanced(to: clock)
      #expect(judged.removalTime(at: clock) == clock)
      #expect(removed.adding(days(1)) >= clock)
      removed = clock
    }
  }

  @Test func `the operator's word lets removal follow, two days' worth a run at most`() {
    var judged = ordinary.accepting(time(10))
    #expect(judged.believes(time(10)))
    var (removed, runs) = (noon, 0)
    while judged.removalTime(at: time(10)) < time(10) {
      judged = judged.advanced(to: time(10))
      let next = judged.removalTime(at: time(10))
      #expect(next > removed && next <= removed.adding(days(2)))
      (removed, runs) = (next, runs + 1)
    }
    #expect((5...10).contains(runs))
    #expect(judged.advanced(to: time(10.04)).removalTime(at: time(10.04)) == time(10.04))
  }

  @Test func `an accepted clock that went further ahead than it took to catch up is still believed`() {
    var judged = ordinary.accepting(time(60))
    for hour in 0..<100 { judged = judged.advanced(to: time(60 + Double(hour) / 24)) }
    #expect(judged.removalTime(at: time(64.2)) == time(64.2))
  }

  @Test func `the operator's word takes back a time that was believed in error`() {
    let wrong = ordinary.accepting(time(40))
    #expect(wrong.believes(time(40)) && wrong.lag(of: noon) == days(40))
    let mended = wrong.accepting(time(0.1))
    #expect(!mended.believes(time(40)) && mended.lag(of: time(0.1)) == .zero)
    #expect(mended.removalTime(at: time(40)) <= time(0.1))
  }

  @Test func `before the store was asked nothing has ended`() {
    let judge = ClockJudge()
    let clock = JudgedClock(WallClock { self.time(40) }, by: judge)
    #expect(clock.removal() == Timestamp(millis: 0) && clock.believed() == time(40) && clock.arrival() == time(40))
    judge.learn(ordinary)
    #expect(clock.removal() == noon && clock.believed() == noon && clock.arrival() == time(40))
    judge.learn(ordinary.accepting(time(40)))
    #expect(clock.removal() == time(1) && clock.believed() == time(40))
  }
}
