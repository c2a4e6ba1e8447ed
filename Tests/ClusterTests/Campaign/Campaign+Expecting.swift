import CampaignModel
import Testing

@testable import RelayCampaign

extension Campaign {
  /// Runs `schedule`, and expects that every rule holds.
  static func expectClean(_ schedule: Schedule, _ extent: Extent = Extent()) async throws {
    let report = try await run(schedule, extent)
    print(report.text)
    for verdict in report.broken {
      Issue.record("seed \(schedule.seed): \(verdict.rule): \(verdict.violations.first.prefix(5))")
    }
  }
}
