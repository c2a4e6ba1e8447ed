import CampaignModel
import ChildProcesses
import Foundation
import Glibc
import Synchronization
import TestSupport

/// Brings a schedule's faults about, takes them back, and starts what ended anew as a supervisor would.
final class CampaignFaults: Sendable {
  private let world: CampaignWorld
  private let turns = Turns()
  /// Processes that a fault has ended, or is about to.
  private let expected = Mutex<Set<Place>>([])
  private let numbers = Atomic(0)

  init(_ world: CampaignWorld) { self.world = world }

  // MARK: - A schedule

  /// Runs all of `schedule`, and returns when everything is whole again.
  /// - Parameter progress: is told of each fault's begin.
  func run(_ schedule: Schedule, progress: @escaping @Sendable (Schedule.Step) -> Void = { _ in }) async throws {
    let begin = ContinuousClock.now
    try await withThrowingTaskGroup(of: Void.self) { group in
      for step in schedule.steps {
        group.addTask {
          try await Task.sleep(until: begin + .milliseconds(step.at))
          try await self.carry(out: step, progress)
        }
      }
      try await group.waitForAll()
    }
  }

  private func carry(out step: Schedule.Step, _ progress: @Sendable (Schedule.Step) -> Void) async throws {
    let holds = step.fault.holds(of: CampaignSite.processes)
    // A former fault that took longer than planned may still be going on.
    try await turns.take(holds)
    let number = numbers.add(1, ordering: .relaxed).newValue
    world.history.saw(.faultBegan(number, step.fault.kind, at: step.fault.site, link: step.fault.link))
    progress(step)
    do {
      let site = try site(step.fault.site)
      try await begin(step.fault, at: site, for: .milliseconds(step.lasting))
      try await end(step.fault, at: site)
    } catch {
      turns.give(back: holds)
      throw TestFailure("\(step.fault): \(error)")
    }
    world.history.saw(.faultEnded(number))
    turns.give(back: holds)
  }

  private func site(_ name: String) throws -> CampaignSite {
    guard let site = world.sites.first(where: { $0.name == name }) else { throw TestFailure("no operator \(name)") }
    return site
  }

  // MARK: - Faults

  /// On return its time is over.
  private func begin(_ fault: Fault, at site: CampaignSite, for time: Duration) async throws {
    let (postgres, redis) = (site.postgres.primary, site.cluster.redis)
    switch fault.kind {
    case .processKilled:
      expect(site, fault)
      try await process(fault, at: site).kill9()
    case .processStopped: try process(fault, at: site).child.send(SIGSTOP)
    case .rollingRestart: return try await restart(site)
    case .postgresRestarted: try await Loopback.blocking { try postgres.stop() }
    case .postgresCrashed: try await Loopback.blocking { try postgres.kill9() }
    case .postgresPromoted: site.lead(to: try await site.postgres.promote())
    case .standbyStopped: try await Loopback.blocking { [standby = site.postgres.standby] in try standby.stop() }
    case .sessionsTerminated: return try await terminateSessions(of: site, for: time)
    case .redisRestarted: redis.stop()
    case .redisFlushed: return try redis.flush()
    case .redisDemoted: try redis.command("REPLICAOF 127.0.0.1 1")
    case .linkCut, .linkCutOneWay, .linkDelayed, .linkLossy: try set(fault, at: site, isWhole: false)
    case .clockJumped: try site.setClock(of: fault.process ?? 0, ahead: fault.seconds ?? 0)
    case .certificateEnded: try site.cluster.site.issueLeaf(daysAgo: Self.leafDays + 1)
    case .olderBuild: try await replace(fault, at: site, by: try CampaignSite.olderBuild())
    case .slowReaders: world.setSlow(true, at: site.name)
    case .postgresDiskFull: try await Loopback.blocking { if let disk = postgres.disk { try disk.fill() } }
    case .redisDiskFull: try await redis.fillDisk()
    case .relayDiskFull: try await Loopback.blocking { if let disk = site.disk { try disk.fill() } }
    case .schemaStep: try await site.migrate()
    case .maintenance: return try await site.maintain()
    }
    try await Task.sleep(for: time)
  }

  private func end(_ fault: Fault, at site: CampaignSite) async throws {
    let postgres = site.postgres.primary
    switch fault.kind {
    case .processKilled:
      try await site.team.start(fault.process ?? 0)
      forgive(site, fault)
    case .processStopped: try process(fault, at: site).child.send(SIGCONT)
    case .rollingRestart, .sessionsTerminated, .redisFlushed, .schemaStep, .maintenance: break
    case .postgresDiskFull:
      try await Loopback.blocking {
        try postgres.disk?.free()
        try postgres.revive()
      }
    case .redisDiskFull: try await Loopback.blocking { [redis = site.cluster.redis] in try redis.freeDisk() }
    case .relayDiskFull: try await Loopback.blocking { if let disk = site.disk { try disk.free() } }
    case .postgresRestarted, .postgresCrashed: try await Loopback.blocking { try postgres.start() }
    case .postgresPromoted: try await site.postgres.replaceStandby()
    case .standbyStopped: try await Loopback.blocking { [standby = site.postgres.standby] in try standby.start() }
    case .redisRestarted: try await site.cluster.redis.start()
    case .redisDemoted: try site.cluster.redis.command("REPLICAOF NO ONE")
    case .linkCut, .linkCutOneWay, .linkDelayed, .linkLossy: try set(fault, at: site, isWhole: true)
    case .clockJumped: try site.setClock(of: fault.process ?? 0, ahead: 0)
    case .certificateEnded: try await site.cluster.site.relay("ca", "issue")
    case .olderBuild:
      try await replace(fault, at: site, by: nil)
      forgive(site, fault)
    case .slowReaders: world.setSlow(false, at: site.name)
    }
  }

  /// How long a leaf lasts.
  private static let leafDays = 90

  private func replace(_ fault: Fault, at site: CampaignSite, by binary: String?) async throws {
    expect(site, fault)
    try await process(fault, at: site).terminate(within: .seconds(60))
    try await site.team.start(fault.process ?? 0, binary: binary)
  }

  private func process(_ fault: Fault, at site: CampaignSite) throws -> RelayProcess {
    try site.team.process(fault.process ?? 0)
  }

  private func restart(_ site: CampaignSite) async throws {
    for index in 0..<CampaignSite.processes {
      let place = Place(site.name, index)
      let old = try site.team.process(index)
      expected.withLock { _ = $0.insert(place) }
      // Its counts go with it: it is asked until it answers no more.
      async let dropped = lastCountOfDroppedReceipts(by: old)
      let exit = try await site.team.replace(index)
      write(try await dropped, droppedAt: place)
      expected.withLock { _ = $0.remove(place) }
      if exit != .code(0) { world.history.saw(.died(place, how: "\(exit), when it was asked to end")) }
    }
  }

  private func terminateSessions(of site: CampaignSite, for time: Duration) async throws {
    let until = ContinuousClock.now + time
    let (postgres, database) = (site.postgres.primary, site.cluster.database)
    let statement =
      "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
      + "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    while ContinuousClock.now < until {
      try await Loopback.blocking { _ = try postgres.sql(statement, in: database) }
      try await Task.sleep(for: .milliseconds(200))
    }
  }

  private func set(_ fault: Fault, at site: CampaignSite, isWhole: Bool) throws {
    let proxy: LinkProxy
    switch fault.link {
    case .peer:
      guard let other = world.sites.first(where: { $0.name != site.name }) else { throw TestFailure("no peer") }
      proxy = other.entrances.peers
    case let link: proxy = try site.link(link ?? .postgres, of: fault.process ?? 0)
    }
    guard !isWhole else { return proxy.set(.whole) }
    switch fault.kind {
    case .linkCutOneWay: proxy.set(.cut, [.back])
    case .linkDelayed: proxy.set(.late(.milliseconds(200)))
    case .linkLossy: proxy.set(.lossy(0.05))
    default: proxy.set(.cut)
    }
  }

  func writeDroppedReceipts(of site: CampaignSite, _ index: Int) async throws {
    write(try await site.team.process(index).receiptsDropped(), droppedAt: Place(site.name, index))
  }

  private func write(_ dropped: Int, droppedAt place: Place) {
    if dropped > 0 { world.history.saw(.receiptsDropped(dropped, at: place)) }
  }

  private func lastCountOfDroppedReceipts(by process: RelayProcess) async throws -> Int {
    var last = 0
    while process.child.exit == nil {
      // While it ends it may not answer.
      if let count = try? await process.receiptsDropped() { last = count }
      try await Task.sleep(for: .milliseconds(50))
    }
    return last
  }

  // MARK: - Supervision

  private func expect(_ site: CampaignSite, _ fault: Fault) {
    expected.withLock { _ = $0.insert(Place(site.name, fault.process ?? 0)) }
  }
  private func forgive(_ site: CampaignSite, _ fault: Fault) {
    expected.withLock { _ = $0.remove(Place(site.name, fault.process ?? 0)) }
  }

  /// Starts processes anew that end by themselves, and writes down that they did, until the task is cancelled.
  func supervise() async throws {
    while !Task.isCancelled {
      for site in world.sites {
        for index in 0..<CampaignSite.processes {
          let place = Place(site.name, index)
          guard !expected.withLock({ $0.contains(place) }), let exit = try site.team.process(index).child.exit else {
            continue
          }
          let log = try site.team.process(index).log().suffix(600)
          world.history.saw(.died(place, how: "\(exit); its log ends: \(log)"))
          try await site.team.start(index)
        }
      }
      do { try await Task.sleep(for: .milliseconds(300)) } catch { return }
    }
  }
}

/// Names that one at a time holds.
private final class Turns: Sendable {
  private let held = Mutex<Set<String>>([])

  func take(_ names: [String]) async throws {
    while true {
      let isMine = held.withLock { held in
        guard held.isDisjoint(with: names) else { return false }
        held.formUnion(names)
        return true
      }
      if isMine { return }
      try await Task.sleep(for: .milliseconds(20))
    }
  }

  func give(back names: [String]) { held.withLock { $0.subtract(names) } }
}
