import CampaignModel

extension Campaign {
  /// Looks for the shortest schedule that still breaks `rule`.
  /// - Returns: the shortest of what was tried, and a test of it, which is told, too.
  static func reduced(_ schedule: Schedule, _ rule: String, _ extent: Extent, runsMax: Int) async throws -> (
    schedule: Schedule, text: String
  ) {
    var small = extent
    (small.folder, small.isTold) = (nil, false)
    let quiet = small
    let reduced = try await ScheduleReducer(runsMax: runsMax).reduce(schedule) { candidate in
      let report = try await run(candidate, quiet)
      let isBroken = report.broken.contains { $0.rule == rule }
      tell("\(candidate.steps.count) faults \(isBroken ? "break" : "keep") the rule")
      return isBroken
    }
    let text = reduced.schedule.test(breaking: rule)
    tell("after \(reduced.runs) runs\(reduced.isShortest ? "" : ", which were not enough"):\n\(text)")
    return (reduced.schedule, text)
  }
}
