import CampaignModel
import Foundation
import TestSupport
import Testing

private let environment = ProcessInfo.processInfo.environment

/// Two operators go through faults that nobody chose, and a model that knows nothing of them judges what was seen.
@Suite struct CampaignTests {
  /// `make campaign` says how long and how large; a run is repeated with its seed.
  private struct Wish {
    let seconds: Int
    let seed: UInt64
    let extent: Campaign.Extent
    /// At most, to find the shortest schedule that breaks a rule.
    let reducing: Int
    /// Only these faults; all where nothing is said.
    let kinds: [FaultKind]

    /// Why a kind that was not asked for by name is left out; nil where nothing stands against it.
    private static func reasonAgainst(_ kind: FaultKind) -> String? {
      switch kind {
      case .olderBuild where environment["RELAY_OLD_BINARY"] == nil: "RELAY_OLD_BINARY names no older build"
      case let kind where kind.needsOwnDisks && !TestDisk.isPossible: "no file system can be mounted here"
      default: nil
      }
    }

    init() throws {
      guard let minutes = environment["RELAY_CAMPAIGN_MINUTES"].flatMap(Double.init) else {
        throw TestFailure("RELAY_CAMPAIGN_MINUTES is no number")
      }
      seconds = Int(minutes * 60)
      seed = environment["RELAY_CAMPAIGN_SEED"].flatMap { UInt64($0) } ?? .random(in: 1...999_999)
      reducing = environment["RELAY_CAMPAIGN_REDUCE"].flatMap { Int($0) } ?? 0
      let named = (environment["RELAY_CAMPAIGN_FAULTS"] ?? "").split(separator: ",").map(String.init)
      let chosen =
        try named.isEmpty
        ? FaultKind.allCases.filter { Self.reasonAgainst($0) == nil }
        : named.map { name in
          guard let kind = FaultKind(rawValue: name) else {
            throw TestFailure("no fault \(name): \(FaultKind.allCases.map(\.rawValue).joined(separator: ", "))")
          }
          return kind
        }
      kinds = chosen
      var extent = Campaign.Extent()
      extent.leftOut = FaultKind.allCases.filter { !chosen.contains($0) }.map { kind in
        "\(kind.rawValue) (\(Self.reasonAgainst(kind) ?? "it was not asked for"))"
      }
      extent.devices = environment["RELAY_CAMPAIGN_DEVICES"].flatMap { Int($0) } ?? 1000
      extent.lanes = environment["RELAY_CAMPAIGN_LANES"].flatMap { Int($0) } ?? 32
      if let pause = environment["RELAY_CAMPAIGN_PAUSE"].flatMap({ Int($0) }) { extent.pause = .milliseconds(pause) }
      if let folder = environment["RELAY_CAMPAIGN_FOLDER"] { extent.folder = "\(folder)/\(seed)" }
      self.extent = extent
    }

    var schedule: Schedule {
      var random = SeededGenerator(seed: seed)
      return ScheduleGenerator(sites: ["alpha", "beta"], processes: CampaignSite.processes, kinds: kinds)
        .schedule(seed: seed, seconds: seconds, &random)
    }
  }

  @Test(.enabled(if: environment["RELAY_CAMPAIGN_MINUTES"] != nil, "`make campaign` runs it"))
  func `a schedule of faults breaks no rule`() async throws {
    let wish = try Wish()
    let schedule = wish.schedule
    print("\(schedule)")
    for reason in wish.extent.leftOut { print("campaign: left out: \(reason)") }
    let report = try await Campaign.run(schedule, wish.extent)
    print(report.text)
    #expect(report.figures.messagesAccepted > 0, "there was a load")
    for verdict in report.broken { Issue.record("\(verdict.rule): \(verdict.violations.first.prefix(5))") }
    if let first = report.broken.first, wish.reducing > 0 { try await reduce(schedule, first.rule, wish) }
  }

  @Test(.enabled(if: environment["RELAY_CAMPAIGN_CHECK"] != nil, "`make campaign-check` runs it"))
  func `a few faults one after the other break no rule`() async throws {
    try await Campaign.expectClean(
      Schedule(
        seed: 1, seconds: 12,
        [
          .init(at: 500, lasting: 1000, Fault(.processKilled, at: "alpha", process: 1)),
          .init(at: 2500, lasting: 1000, Fault(.redisRestarted, at: "beta")),
          .init(at: 5000, lasting: 1500, Fault(.linkCut, at: "alpha", process: 0, link: .postgres)),
          .init(at: 8000, lasting: 2000, Fault(.linkCut, at: "beta", link: .peer)),
        ]))
  }

  /// Prints the shortest schedule that still breaks `rule`, as a test.
  private func reduce(_ schedule: Schedule, _ rule: String, _ wish: Wish) async throws {
    let text = try await Self.reduced(schedule, rule, wish.extent, runsMax: wish.reducing).text
    if let folder = wish.extent.folder {
      try Data((text + "\n").utf8).write(to: URL(filePath: folder + "/shortest.swift"))
    }
  }

  /// - Returns: the shortest of what was tried, and a test of it, which is printed, too.
  static func reduced(_ schedule: Schedule, _ rule: String, _ extent: Campaign.Extent, runsMax: Int) async throws -> (
    schedule: Schedule, text: String
  ) {
    var small = extent
    (small.folder, small.isTold) = (nil, false)
    let quiet = small
    let reduced = try await ScheduleReducer(runsMax: runsMax).reduce(schedule) { candidate in
      let report = try await Campaign.run(candidate, quiet)
      let isBroken = report.broken.contains { $0.rule == rule }
      print("campaign: \(candidate.steps.count) faults \(isBroken ? "break" : "keep") the rule")
      return isBroken
    }
    let text = reduced.schedule.test(breaking: rule)
    print("campaign: after \(reduced.runs) runs\(reduced.isShortest ? "" : ", which were not enough"):\n\(text)")
    return (reduced.schedule, text)
  }
}
