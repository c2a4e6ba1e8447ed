import CampaignModel
import Foundation

/// The result of a campaign.
struct CampaignReport: Codable {
  let schedule: Schedule
  let devices: Int
  let seconds: Int
  let machine: String
  let binary: String
  let figures: Figures
  let verdicts: [Checker.Verdict]
  /// Faults that this machine, or this build, does not allow for.
  let leftOut: [String]
  /// Accepted, and not there when waiting was given up.
  let owed: Int

  var broken: [Checker.Verdict] { verdicts.filter { !$0.isKept } }

  static var machineName: String {
    let info = ProcessInfo.processInfo
    return "\(info.activeProcessorCount) cores, \(info.physicalMemory >> 30) GiB, \(info.operatingSystemVersionString)"
  }

  /// For people.
  var text: String {
    let faults = figures.faults.sorted { $0.key < $1.key }.map { "\($0.value) × \($0.key)" }
    var lines = [
      "campaign: seed \(schedule.seed), \(seconds) s, \(devices) devices, \(machine)",
      "  relay: \(binary)",
      "  messages: \(figures.messagesAccepted) accepted in \(figures.submissions) attempts, \(figures.deliveries) "
        + "deliveries, \(figures.receipts) receipts, \(figures.undeliverable) undeliverable, "
        + "\(figures.keysDrawn) keys, \(figures.connections) connections",
      "  requests: \(figures.requests), refused with 5xx \(figures.refused), without an answer \(figures.unanswered)",
      "  faults: \(faults.joined(separator: ", "))",
      "  recovery after a fault: \(figures.recoveryMillis.count) measured, half within "
        + "\(figures.recovery(0.5) ?? 0) ms, 99 of 100 within \(figures.recovery(0.99) ?? 0) ms",
    ]
    for party in Returns.Party.allCases {
      lines.append(
        "  \(party.rawValue) back: \(figures.returns.millis[party]?.count ?? 0) measured, the next success half within "
          + "\(figures.returns.percentile(party, 0.5) ?? 0) ms, 99 of 100 within \(figures.returns.percentile(party, 0.99) ?? 0) ms"
      )
    }
    lines += [
      "  maintenance: other traffic stood still for \(figures.maintenance.longestMillis ?? 0) ms at most, behind it for "
        + "\(figures.maintenance.longestBehindMillis ?? 0) ms",
      "  rolling restarts: \(figures.requestsInRollingRestart) requests, \(figures.failedInRollingRestart) failed",
      "  left out: \(leftOut.isEmpty ? "nothing" : leftOut.joined(separator: "; "))",
      "  messages a second: \(seconds > 0 ? figures.messagesAccepted / seconds : 0)",
      "  not delivered when waiting was given up: \(owed)",
    ]
    return (lines + Self.lines(of: verdicts)).joined(separator: "\n")
  }

  /// One for each rule, and up to five violations.
  static func lines(of verdicts: [Checker.Verdict]) -> [String] {
    verdicts.flatMap { verdict in
      [
        "  \(verdict.isKept ? "kept  " : "BROKEN") \(verdict.rule)"
          + (verdict.isKept ? "" : ": \(verdict.violations.count) times")
      ] + verdict.violations.first.prefix(5).map { "           \($0)" }
    }
  }

  /// Writes `report.txt` and `report.json` into `folder`.
  func write(to folder: String) throws {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
    try Data((text + "\n\n\(schedule)\n").utf8).write(to: URL(filePath: folder + "/report.txt"))
    try encoder.encode(self).write(to: URL(filePath: folder + "/report.json"))
  }
}
