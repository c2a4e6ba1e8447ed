import CampaignModel
import Foundation
import RelayClient
import Synchronization
import TestSupport

/// A run of two operators and their devices through a schedule of faults, judged by what was seen from outside.
enum Campaign {
  /// How large a run is.
  struct Extent: Sendable {
    var devices = 60
    /// Writers at once, and how long each pauses.
    var lanes = 12
    var pause = Duration.milliseconds(50)
    /// The folder for its history and report; nil: none.
    var folder: String?
    /// Minutes of it are told as they pass.
    var isTold = true
    /// How long everything is whole at the end while messages are sent: longer than anyone may be deaf.
    var quiet = Duration.seconds(40)
    /// How long what was accepted may take to come after the last message was sent.
    var settling = Duration.seconds(60)
    /// Then receipts are still on their way.
    var rest = Duration.seconds(12)
    /// How long processes serve before they are measured first.
    var warmUp = Duration.seconds(5)
    /// How long those devices keep a connection that do not keep it to its end.
    var idleSeconds = 10.0...60
    /// A fault that the relays have from the begin; needs a debug build.
    var planted: String?
    /// Kinds of faults that the schedule could not have, and why.
    var leftOut: [String] = []
  }

  /// Runs `schedule` on operators of its own.
  static func run(_ schedule: Schedule, _ extent: Extent) async throws -> CampaignReport {
    let kinds = Set(schedule.steps.map(\.fault.kind))
    return try await CampaignPushes.with { pushes in
      let means = CampaignSite.Means(
        pushes: pushes, planted: extent.planted, hasClocks: kinds.contains(.clockJumped),
        hasOwnDisks: kinds.contains { $0.needsOwnDisks })
      return try await CampaignSite.withTwo(seed: schedule.seed, means) { sites in
        try await run(schedule, extent, at: sites, pushes)
      }
    }
  }

  private static func run(
    _ schedule: Schedule, _ extent: Extent, at sites: [CampaignSite], _ pushes: CampaignPushes
  ) async throws -> CampaignReport {
    let folder = try Folder(extent.folder)
    defer { folder.remove() }
    let figures = SharedFigures()
    let history = try HistoryWriter(path: folder.path + "/history.jsonl") { figures.take($0) }
    let world = try CampaignWorld(sites, pushes, history, idleSeconds: extent.idleSeconds)
    var random = SeededGenerator(seed: schedule.seed)
    let population = try await CampaignPopulation.register(extent.devices, in: world, random.split())
    let begun = ContinuousClock.now
    let (connecting, working) = (random.split(), random.split())
    let faults = CampaignFaults(world)
    let owed = try await population.connected(connecting) {
      try await withThrowingTaskGroup(of: Void.self) { group in
        group.addTask { try await faults.supervise() }
        let owed = try await pass(through: schedule, extent, population, faults, world, figures, working)
        group.cancelAll()
        try await group.waitForAll()
        return owed
      }
    }
    try await population.readMailboxes(random.split())
    try history.close()
    let report = CampaignReport(
      schedule: schedule, devices: extent.devices, seconds: Int((ContinuousClock.now - begun) / .seconds(1)),
      machine: CampaignReport.machineName, binary: try RelayExecutable.path(), figures: figures.value,
      verdicts: try Checker.check(historyAt: history.path), leftOut: extent.leftOut, owed: owed)
    try report.write(to: folder.path)
    return report
  }

  /// From the first message to the last. - Returns: how many copies did not come.
  private static func pass(
    through schedule: Schedule, _ extent: Extent, _ population: CampaignPopulation, _ faults: CampaignFaults,
    _ world: CampaignWorld, _ figures: SharedFigures, _ random: SeededGenerator
  ) async throws -> Int {
    try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask { try await population.work(lanes: extent.lanes, pause: extent.pause, random) }
      // Processes that have served for a moment are what they are compared with at the end.
      try await Task.sleep(for: extent.warmUp)
      try await measure(world, isFinal: false)
      let teller = Task {
        while extent.isTold {
          try await Task.sleep(for: .seconds(60))
          tell("\(world.history.now), \(world.acceptedCount) accepted, \(world.owedCount) under way")
        }
      }
      defer { teller.cancel() }
      let end = ContinuousClock.now + .seconds(schedule.seconds)
      try await faults.run(schedule) { step in
        if extent.isTold { tell("\(world.history.now), \(step.fault) for \(step.lasting) ms") }
      }
      try await Task.sleep(until: end)
      // A device that is deaf now stays so, while others still write.
      try await Task.sleep(for: extent.quiet)
      population.stopSending()
      try await group.waitForAll()
    }
    // A message that does not come is owed: the rules say so.
    let deadline = ContinuousClock.now + extent.settling
    while world.owedCount > 0, ContinuousClock.now < deadline { try await Task.sleep(for: .milliseconds(200)) }
    try await Task.sleep(for: extent.rest)
    for site in world.sites {
      for index in 0..<CampaignSite.processes { try await faults.writeDroppedReceipts(of: site, index) }
    }
    try await measure(world, isFinal: true)
    return world.owedCount
  }

  private static func measure(_ world: CampaignWorld, isFinal: Bool) async throws {
    for site in world.sites {
      for index in 0..<CampaignSite.processes {
        let size = try await site.resources(of: index)
        world.history.saw(
          .measured(
            Place(site.name, index), bytes: size.bytes, descriptors: size.descriptors, isFinal: isFinal))
      }
    }
  }

  /// Figures that come about as the history is written.
  private final class SharedFigures: Sendable {
    private let figures = Mutex(Figures())
    func take(_ event: Event) { figures.withLock { $0.take(event) } }
    var value: Figures { figures.withLock { $0 } }
  }

  /// The folder in which a run leaves its files.
  private struct Folder {
    let path: String
    private let isKept: Bool

    init(_ kept: String?) throws {
      isKept = kept != nil
      path = kept ?? FileManager.default.temporaryDirectory.appending(path: "campaign-\(UUID().uuidString)").path
      try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    }

    func remove() {
      // A leftover in the temporary folder hurts nobody.
      if !isKept { try? FileManager.default.removeItem(atPath: path) }
    }
  }
}
