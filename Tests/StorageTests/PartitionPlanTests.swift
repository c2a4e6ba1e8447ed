import TestTags
import Testing

@testable import Storage

/// How the days of messages are divided, whatever the retention, and whatever it was before.
@Suite(.tags(.unit)) struct PartitionPlanTests {
  typealias Day = PartitionPlan.Day

  /// Days that pass, one run each: what can go goes, what is missing is made.
  private struct Passing {
    var partitions: [Range<Day>] = []
    var today: Day = 10_000
    var most = 0

    mutating func run(_ days: Int, retention: Day, past: Day? = nil) throws {
      let plan = PartitionPlan(retention: retention)
      for _ in 0..<days {
        let past = past ?? today
        partitions += plan.missing(partitions, today: today, past: past)
        partitions.sort { $0.lowerBound < $1.lowerBound }
        for (one, next) in zip(partitions, partitions.dropFirst()) { try #require(one.upperBound <= next.lowerBound) }
        for day in today...today + PartitionPlan.daysAhead {
          try #require(partitions.contains { $0.contains(day) }, "no room on day \(day)")
        }
        let old = partitions.filter { $0.upperBound <= past - retention }
        let going = PartitionPlan.going(old) { $0 }
        for range in going { try #require(range.upperBound <= past - retention) }
        partitions.removeAll { going.contains($0) }
        most = max(most, partitions.count)
        today += 1
      }
    }
  }

  /// With the three of `acknowledged`: 40.
  private static let bound = 37

  @Test(arguments: [1, 7, 30, 35, 36, 90, 365, 1000, 3650] as [Day])
  func `their number is bounded, and days are single up to 35`(retention: Day) throws {
    var passing = Passing()
    try passing.run(Int(retention) * 2 + 200, retention: retention)
    #expect(passing.most <= Self.bound)
    let widths = Set(passing.partitions.map(\.count))
    #expect(retention <= 35 ? widths == [1] : widths.allSatisfy { $0 > 1 && $0 <= Int(retention) / 15 + 2 })
    // Nothing goes before its time.
    let kept = try #require(passing.partitions.first)
    #expect(kept.lowerBound <= passing.today - 1 - retention)
  }

  @Test(arguments: [(7, 365), (365, 7), (30, 3650), (3650, 30), (35, 36), (36, 35), (35, 365)] as [(Day, Day)])
  func `a retention that changes leaves neither gap nor overlap, and their number bounded`(before: Day, after: Day)
    throws
  {
    var passing = Passing()
    try passing.run(Int(before) + 60, retention: before)
    try passing.run(Int(after) + Int(before) + 400, retention: after)
    // One beside those of the former retention, where they leave no room.
    #expect(passing.most <= Self.bound + 1)
    try passing.run(Int(before) + 60, retention: before)
    #expect(passing.most <= Self.bound + 1)
  }

  @Test func `a clock that jumps ahead and back again makes few, and what is far ahead is no obstacle`() throws {
    var passing = Passing()
    try passing.run(100, retention: 35)
    let right = passing.today
    for jump in 1...40 {
      passing.today = right + Day(jump) * 41
      try passing.run(1, retention: 35, past: right)
    }
    #expect(passing.most <= 45)
    passing.today = right
    try passing.run(30, retention: 35)
  }

  @Test func `two days' worth go in a run, or one partition`() {
    func going(_ ranges: [Range<Day>]) -> Int { PartitionPlan.going(ranges) { $0 }.count }
    #expect(going([]) == 0)
    #expect(going([1..<2, 2..<3, 3..<4]) == 2)
    #expect(going([1..<14, 14..<15]) == 1)
    #expect(going([1..<2, 2..<15]) == 1)
  }
}
