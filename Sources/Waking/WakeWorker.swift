import Logging
import Push
package import RelayCore
import RelayHTTP
import RelayWork
import ServiceLifecycle
import Synchronization

/// Wakes the devices of one provider: claims what is due, for a while, and carries it out.
///
/// Each provider has its own, and its own lane: one in trouble slows no other. While the lane's breaker is open one
/// job at a time is claimed, which shows whether the provider takes messages again; the others wait in the store.
package final class WakeWorker: Service {
  private let provider: WakeProvider
  private let lane: PushLane
  private let parts: WakeParts
  private let settings: WakingSettings
  private let sender: WakeSender
  private let settlements: Batcher<WakeSettlement>
  /// Jobs in the hands of this process.
  private let claimed: InHand
  /// There may be something to claim: by what was asked for, and by what makes room.
  private let rings: Nudge
  /// When a job was last claimed for a provider in trouble.
  private let probed = Mutex<ContinuousClock.Instant?>(nil)

  /// - Returns: nil for a provider that is not configured.
  package init?(of provider: WakeProvider, _ parts: WakeParts, _ settings: WakingSettings) {
    guard let lane = parts.lanes[provider] else { return nil }
    let claimed = InHand()
    let rings = Nudge()
    parts.bell.add(rings)
    self.rings = rings
    self.provider = provider
    self.lane = lane
    self.parts = parts
    self.settings = settings
    self.claimed = claimed
    sender = WakeSender(parts: parts, settings: settings)
    settlements = Batcher(
      retryingBatchesOf: Self.settledTogether, waitingMax: .max, rest: .init(beforeRetry: Self.pause)
    ) { settlements in
      do throws(StoreError) {
        try await parts.store.settleWakes(settlements)
      } catch .unavailable(let reason) {
        parts.logger.warning("wake-ups could not be settled", metadata: ["error": "\(reason)"])
        // A job is carried out again if its claim has ended by then.
        return settlements
      } catch {
        parts.logger.error("wake-ups could not be settled", metadata: ["error": "\(error)"])
      }
      for settlement in settlements {
        if let attempt = settlement.attempt { parts.metrics.ended(attempt, of: provider) }
      }
      claimed.leave(settlements.map(\.job))
      rings.wake()
      return []
    }
  }

  /// Until shutdown; what is under way then is finished.
  package func run() async throws {
    // Also while it is finished.
    let renewing = Task { await renewClaims() }
    defer { renewing.cancel() }
    await cancelWhenGracefulShutdown { [self] in
      await withTaskGroup(of: Void.self) { group in
        group.addTask { await self.rings.wake(every: self.settings.poll) }
        var unanswered: Int64?
        for await _ in self.rings { await self.claimAll(unanswered: &unanswered) }
        group.cancelAll()
      }
    }
    await Pause.poll(every: .milliseconds(10), until: .now + settings.attempt + .seconds(5)) { claimed.count == 0 }
  }

  /// Keeps what takes long from being claimed by another process.
  private func renewClaims() async {
    for await _ in Periodic(every: settings.claim / 4, from: .afterInterval) {
      let jobs = claimed.jobs(heldSince: .now - settings.claim / 4)
      guard !jobs.isEmpty else { continue }
      do throws(StoreError) {
        try await parts.store.renewWakes(jobs, for: settings.claim)
      } catch {
        parts.logger.debug("claims of wake-ups could not be renewed", metadata: ["error": "\(error)"])
      }
    }
  }

  /// - Parameter unanswered: the last claim, where it is not known what became of it: the store may hold jobs for it,
  ///   which wait for nobody until they are returned.
  private func claimAll(unanswered: inout Int64?) async {
    while !Task.isCancelled {
      // Devices name their push services. Trouble with one says nothing of the others.
      let isOpen = provider == .webPush || lane.isAvailable
      let limit = isOpen ? min(settings.claimedMax - claimed.count, Self.claimedTogether) : probes()
      guard limit > 0 else { return }
      let jobs: [WakeJob]
      do throws(StoreError) {
        if let claim = unanswered { try await parts.store.returnWakes(claim: claim) }
        let claim = Int64.random(in: .min ... .max)
        unanswered = claim
        jobs = try await parts.store.claimWakes(of: provider, claim: claim, limit: limit, for: settings.claim)
        unanswered = nil
      } catch {
        parts.logger.warning("wake-ups could not be claimed", metadata: ["error": "\(error)"])
        return
      }
      guard !jobs.isEmpty else { return }
      claimed.enter(jobs)
      // In a task of its own: what was claimed is carried out, also at shutdown.
      Task { [self] in await carryOut(jobs) }
      if jobs.count < limit { return }
    }
  }

  /// How many jobs may be claimed to see whether the provider takes messages again: 1 now and then.
  private func probes() -> Int {
    guard claimed.count == 0 else { return 0 }
    let now = ContinuousClock.now
    return probed.withLock { probed in
      if let last = probed, now - last < settings.poll / 2 { return 0 }
      probed = now
      return 1
    }
  }

  private func carryOut(_ jobs: [WakeJob]) async {
    let absent = Set(await parts.live.lookAgain(jobs.map(\.device)))
    await withTaskGroup(of: Void.self) { group in
      for job in jobs {
        group.addTask { [self] in
          settlements.add(await sender.carryOut(job, isConnected: !absent.contains(job.device)))
        }
      }
    }
  }

  private static let claimedTogether = 50
  private static let settledTogether = 100
  private static let pause = Duration.seconds(1)
}

/// The jobs that this process has claimed and not settled.
private final class InHand: Sendable {
  private struct Key: Hashable {
    let device: DeviceAddress
    let claim: Int64
    init(_ job: WakeJob) { (device, claim) = (job.device, job.claim) }
  }

  private let held = Mutex<[Key: (job: WakeJob, since: ContinuousClock.Instant)]>([:])

  var count: Int { held.withLock { $0.count } }
  func enter(_ jobs: [WakeJob]) {
    let now = ContinuousClock.now
    held.withLock { held in
      for job in jobs { held[Key(job)] = (job, now) }
    }
  }
  func leave(_ jobs: [WakeJob]) {
    held.withLock { held in
      for job in jobs { held[Key(job)] = nil }
    }
  }

  /// The jobs that were claimed before `moment`, each device once: its last claim.
  func jobs(heldSince moment: ContinuousClock.Instant) -> [WakeJob] {
    let old = held.withLock { held in held.values.filter { $0.since <= moment } }
    return Array(
      Dictionary(old.map { ($0.job.device, $0) }) { $0.since < $1.since ? $1 : $0 }.values.map(\.job))
  }
}
