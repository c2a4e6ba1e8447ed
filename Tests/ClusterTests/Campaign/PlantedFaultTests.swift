import CampaignModel
import Foundation
import TestTags
import Testing

@testable import RelayCampaign

/// The judge is judged: relays with a fault planted are caught by the rule that it breaks.
@Suite(
  .tags(.processes), .serialized,
  .enabled(if: ProcessInfo.processInfo.environment["RELAY_CAMPAIGN_CHECK"] != nil, "`make campaign-check` runs it"))
struct PlantedFaultTests {
  struct Planted: Sendable, CustomTestStringConvertible {
    /// As `PLANTED_FAULT` takes it.
    let fault: String
    let rule: String
    /// How long messages are sent: who is deaf is told after 30 s.
    var seconds = 5.0
    var testDescription: String { fault }
  }

  static let all = [
    Planted(fault: "message-lost", rule: "accepted is delivered or waits"),
    Planted(fault: "body-altered", rule: "delivered is what was sent, once a connection"),
    Planted(fault: "order-broken", rule: "order within a sender"),
    Planted(fault: "key-twice", rule: "one-time keys are handed out once"),
    Planted(fault: "two-connections", rule: "one live connection a device", seconds: 38),
    Planted(fault: "device-deaf", rule: "nobody deaf, unwoken or shut out", seconds: 34),
    Planted(fault: "device-unwoken", rule: "nobody deaf, unwoken or shut out", seconds: 34),
    Planted(fault: "receipt-lost", rule: "receipts neither forged nor lost", seconds: 15),
    Planted(fault: "receipt-forged", rule: "receipts neither forged nor lost"),
    Planted(fault: "limit-ignored", rule: "limits are kept", seconds: 10),
    Planted(fault: "descriptors-leak", rule: "memory and descriptors return", seconds: 8),
    Planted(fault: "process-dies", rule: "no process dies, no answer is odd", seconds: 10),
  ]

  /// As small and short as it shows: accounts that write to each other, and devices of each habit.
  private static func extent(_ planted: String) -> Campaign.Extent {
    var extent = Campaign.Extent(devices: 20, pause: .milliseconds(20), isTold: false)
    (extent.quiet, extent.settling, extent.rest) = (.zero, .seconds(4), .seconds(2))
    (extent.warmUp, extent.idleSeconds) = (.seconds(1), 1...3)
    extent.planted = planted
    return extent
  }

  @Test(arguments: all) func `a planted fault is caught`(_ planted: Planted) async throws {
    var extent = Self.extent(planted.fault)
    extent.quiet = .seconds(planted.seconds)
    let report = try await Campaign.run(Schedule(seed: 5, seconds: 0, []), extent)
    print(report.text)
    #expect(report.broken.map(\.rule).contains(planted.rule), "\(planted.fault): \(report.text)")
  }

  @Test func `a few faults one after the other break no rule`() async throws {
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

  /// A message that the store did not take is accepted: that shows only while PostgreSQL is away.
  @Test func `a schedule is cut down to the fault that breaks a rule, and printed as a test`() async throws {
    let guilty = Schedule.Step(at: 3000, lasting: 1500, Fault(.postgresRestarted, at: "alpha"))
    let schedule = Schedule(
      seed: 6, seconds: 7,
      [
        .init(at: 500, lasting: 300, Fault(.redisFlushed, at: "beta")),
        .init(at: 1000, lasting: 500, Fault(.linkDelayed, at: "beta", process: 1, link: .redis)),
        guilty,
        .init(at: 5500, lasting: 500, Fault(.slowReaders, at: "alpha")),
      ])
    let extent = Self.extent("outage-forgotten")
    let rule = "accepted is delivered or waits"
    let first = try await Campaign.run(schedule, extent)
    #expect(first.broken.map(\.rule).contains(rule), "\(first.text)")
    let reduced = try await Campaign.reduced(schedule, rule, extent, runsMax: 8)
    #expect(reduced.schedule.steps == [guilty])
    #expect(reduced.text.contains("Fault(.postgresRestarted, at: \"alpha\")"), "\(reduced.text)")
  }
}
