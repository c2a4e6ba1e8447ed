import ArgumentParser
import CampaignModel
import Foundation
import TestSupport
import UnixSignals

/// `relay-campaign`: two operators go through faults that nobody chose, and a model that knows nothing of them judges
/// what was seen (docs/reliability.md, "The campaign").
@main struct RelayCampaign: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "relay-campaign",
    abstract: "Drive two peered operators through generated faults, and judge by a model what was seen.",
    discussion: """
      Starts all that it needs on free ports of this machine, in temporary folders, and removes it at the end. The \
      relay is the executable beside this one, or the one that RELAY_TEST_BINARY names; RELAY_OLD_BINARY names an \
      older build. A run ends with its report.

      Exit codes: 0 every rule is kept, 1 a rule is broken, 64 wrong usage, 130 and 143 interrupted.
      """)

  @Option(help: "How long faults happen. A quiet time of 40 s follows.")
  var minutes = 10.0

  @Option(help: "Of the schedule and of what devices choose; drawn where it is not said, and printed.")
  var seed: UInt64?

  @Option(help: "How many devices register.")
  var devices = 1000

  @Option(help: "How many write at a time.")
  var lanes = 32

  @Option(help: ArgumentHelp("How long each pauses between two messages.", valueName: "milliseconds"))
  var pause = 50

  @Option(help: ArgumentHelp("Only these kinds, with commas between them.", valueName: "kinds"))
  var faults = ""

  @Option(help: ArgumentHelp("How many more runs may look for the shortest schedule.", valueName: "runs"))
  var reduce = 0

  @Option(help: ArgumentHelp("Leave history, report and shortest schedule in a folder in here.", valueName: "path"))
  var folder: String?

  @Option(help: ArgumentHelp("Run nothing: judge a history that a run has left.", valueName: "history.jsonl"))
  var judge: String?

  func validate() throws {
    guard minutes > 0, minutes <= 7 * 24 * 60 else { throw ValidationError("--minutes is 10080 at most.") }
    guard (20...100_000).contains(devices) else { throw ValidationError("--devices is 20 to 100000.") }
    guard (1...1000).contains(lanes), (0...60_000).contains(pause) else {
      throw ValidationError("--lanes is 1 to 1000, --pause 0 to 60000.")
    }
    guard (0...1000).contains(reduce) else { throw ValidationError("--reduce is 1000 at most.") }
    _ = try chosen()
  }

  func run() async throws {
    if let judge { return try Self.judge(judge) }
    let signals = await UnixSignalsSequence(trapping: .sigint, .sigterm, .sighup)
    try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask { if try await !campaign() { throw ExitCode.failure } }
      group.addTask {
        for await signal in signals { throw ExitCode(signal == .sigint ? 130 : 143) }
        throw CancellationError()
      }
      defer { group.cancelAll() }
      try await group.next()
    }
  }

  private static func judge(_ path: String) throws {
    let verdicts = try Checker.check(historyAt: path)
    tell("the rules\n\(CampaignReport.lines(of: verdicts).joined(separator: "\n"))")
    guard verdicts.allSatisfy(\.isKept) else { throw ExitCode.failure }
  }

  /// - Returns: whether every rule was kept.
  private func campaign() async throws -> Bool {
    let seed = seed ?? .random(in: 1...999_999)
    let kinds = try chosen()
    var extent = Campaign.Extent(devices: devices, lanes: lanes, pause: .milliseconds(pause))
    if let folder { extent.folder = "\(folder)/\(seed)" }
    extent.leftOut = FaultKind.allCases.filter { !kinds.contains($0) }.map { kind in
      "\(kind.rawValue) (\(Self.reasonAgainst(kind) ?? "it was not asked for"))"
    }
    var random = SeededGenerator(seed: seed)
    let schedule = ScheduleGenerator(sites: ["alpha", "beta"], processes: CampaignSite.processes, kinds: kinds)
      .schedule(seed: seed, seconds: Int(minutes * 60), &random)
    tell("\(schedule)")
    for reason in extent.leftOut { tell("left out: \(reason)") }
    let report = try await Campaign.run(schedule, extent)
    tell("the report\n\(report.text)")
    guard report.figures.messagesAccepted > 0 else { throw TestFailure("no message was accepted") }
    if let first = report.broken.first, reduce > 0 {
      let text = try await Campaign.reduced(schedule, first.rule, extent, runsMax: reduce).text
      if let folder = extent.folder {
        try Data((text + "\n").utf8).write(to: URL(filePath: folder + "/shortest.swift"))
      }
    }
    return report.broken.isEmpty
  }

  private func chosen() throws -> [FaultKind] {
    let named = faults.split(separator: ",").map(String.init)
    guard !named.isEmpty else { return FaultKind.allCases.filter { Self.reasonAgainst($0) == nil } }
    return try named.map { name in
      guard let kind = FaultKind(rawValue: name) else {
        let known = FaultKind.allCases.map(\.rawValue).joined(separator: ", ")
        throw ValidationError("There is no fault \(name): \(known).")
      }
      return kind
    }
  }

  /// Why a kind that was not asked for by name is left out; nil where nothing stands against it.
  private static func reasonAgainst(_ kind: FaultKind) -> String? {
    switch kind {
    case .olderBuild where ProcessInfo.processInfo.environment["RELAY_OLD_BINARY"] == nil:
      "RELAY_OLD_BINARY names no older build"
    case let kind where kind.needsOwnDisks && !TestDisk.isPossible: "no file system can be mounted here"
    default: nil
    }
  }
}
