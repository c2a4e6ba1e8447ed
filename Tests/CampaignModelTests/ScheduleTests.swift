import CampaignModel
import TestTags
import Testing

/// Schedules come from a seed, are repeated by it, and are cut down to what matters.
@Suite(.tags(.unit)) struct ScheduleTests {
  /// SplitMix64.
  private struct Numbers: RandomNumberGenerator {
    var state: UInt64
    mutating func next() -> UInt64 {
      state &+= 0x9E37_79B9_7F4A_7C15
      var value = state
      value = (value ^ (value >> 30)) &* 0xBF58_476D_1CE4_E5B9
      value = (value ^ (value >> 27)) &* 0x94D0_49BB_1331_11EB
      return value ^ (value >> 31)
    }
  }

  private static func schedule(seed: UInt64, seconds: Int = 600) -> Schedule {
    var numbers = Numbers(state: seed)
    return ScheduleGenerator(sites: ["alpha", "beta"], processes: 3).schedule(
      seed: seed, seconds: seconds, &numbers)
  }

  @Test func `a seed makes one schedule, another seed another`() {
    #expect(Self.schedule(seed: 1) == Self.schedule(seed: 1))
    #expect(Self.schedule(seed: 1) != Self.schedule(seed: 2))
  }

  @Test(arguments: 1...20 as ClosedRange<UInt64>)
  func `all kinds come, some in pairs, none twice on one thing, and there is quiet between`(seed: UInt64) {
    let schedule = Self.schedule(seed: seed)
    #expect(Set(schedule.steps.map(\.fault.kind)) == Set(FaultKind.allCases))
    #expect(schedule.steps.allSatisfy { $0.at >= 0 && $0.end <= 600_000 })
    var isPaired = false
    for (index, step) in schedule.steps.enumerated() {
      for other in schedule.steps[(index + 1)...] where other.at < step.end {
        isPaired = true
        #expect(Set(step.fault.holds(of: 3)).isDisjoint(with: other.fault.holds(of: 3)))
      }
    }
    #expect(isPaired)
    var quietest = 0
    var end = 0
    for step in schedule.steps {
      quietest = max(quietest, step.at - end)
      end = max(end, step.end)
    }
    #expect(quietest > 40_000)
  }

  @Test func `a schedule is cut down to the two faults that it takes`() async throws {
    let schedule = Self.schedule(seed: 3)
    let guilty = [schedule.steps[5], schedule.steps[schedule.steps.count - 4]]
    let reduced = await ScheduleReducer(runsMax: 200).reduce(schedule) { candidate in
      guilty.allSatisfy(candidate.steps.contains)
    }
    #expect(reduced.schedule.steps == guilty)
    #expect(reduced.isShortest)
    #expect(reduced.schedule.seconds <= guilty[1].end / 1000 + 1)
  }

  @Test func `a step of the schema is run once an operator`() {
    var random = Numbers(state: 3)
    let schedule = ScheduleGenerator(sites: ["alpha", "beta"], processes: 3, kinds: [.schemaStep, .redisFlushed])
      .schedule(seed: 3, seconds: 600, &random)
    let steps = schedule.steps.filter { $0.fault.kind == .schemaStep }
    #expect(Set(steps.map(\.fault.site)) == ["alpha", "beta"] && steps.count == 2)
  }

  @Test func `a schedule is cut down to one fault, and no further than runs allow`() async throws {
    let schedule = Self.schedule(seed: 4)
    let guilty = schedule.steps[7]
    let reduced = await ScheduleReducer(runsMax: 200).reduce(schedule) { $0.steps.contains(guilty) }
    #expect(reduced.schedule.steps == [guilty] && reduced.isShortest)
    let hasty = await ScheduleReducer(runsMax: 3).reduce(schedule) { $0.steps.contains(guilty) }
    #expect(hasty.runs == 3 && hasty.schedule.steps.contains(guilty) && !hasty.isShortest)
  }

  @Test func `a schedule that breaks nothing alone stays as it is`() async throws {
    let schedule = Self.schedule(seed: 5, seconds: 30)
    let reduced = await ScheduleReducer().reduce(schedule) { _ in false }
    #expect(reduced.schedule.steps == schedule.steps)
  }

  @Test func `a schedule prints as a test that runs it again`() {
    let schedule = Schedule(
      seed: 7, seconds: 20,
      [
        .init(at: 1500, lasting: 300, Fault(.linkCut, at: "beta", process: 2, link: .postgres)),
        .init(at: 100, lasting: 2000, Fault(.processKilled, at: "alpha", process: 1)),
      ])
    #expect(
      schedule.test(breaking: "order within a sender") == """
        @Test func `order within a sender: seed 7, 2 faults`() async throws {
          try await Campaign.expectClean(
            Schedule(
              seed: 7, seconds: 20,
              [
                .init(at: 100, lasting: 2000, Fault(.processKilled, at: "alpha", process: 1)),
                .init(at: 1500, lasting: 300, Fault(.linkCut, at: "beta", process: 2, link: .postgres)),
              ]))
        }
        """)
    #expect(schedule.description.contains("1.500 s, for 300 ms: linkCut at beta/2 to postgres"))
  }
}
