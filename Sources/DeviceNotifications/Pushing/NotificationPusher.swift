package import Logging
package import Push
package import RelayCore
import RelayWork
import ServiceLifecycle
import Synchronization

/// Makes the pushes of one service that wait in the store, in every process: each takes pushes that no other has
/// taken.
///
/// If a process is killed, the others get its pushes when its claims have run out. Services share nothing, so that
/// one in trouble slows no other. If a provider takes nothing, one push is taken at each look, to find out whether
/// the provider works again. A push for a provider that is not configured here is left to processes that have its
/// keys. If no process has them, the push is forgotten when it is past its time.
package final class NotificationPusher: Service {
  private struct State {
    var underWay = 0
    /// Whether the store had more than was taken.
    var hasMore = false
    var isStopping = false
  }

  /// How often the store is looked at for what other processes were asked for, and what is due again.
  private static let interval = Duration.seconds(2)
  /// Pushes at a time, and of one look.
  private static let underWayMax = 40
  /// The part of a claim that must be left for an attempt to begin: as long as one may take.
  private static let claimMargin = Duration.seconds(30)
  /// How long a push to a provider without keys here is left to others.
  private static let strangeKeyPause = Duration.seconds(10)
  private let service: NotificationService
  private let store: any NotificationStore
  private let lanes: [NotificationService: PushLane]
  private let clock: WallClock
  private let logger: Logger
  private let metrics: NotificationMetrics
  private let attemptMax: Duration
  private let onEvent: @Sendable () -> Void
  private let settlements: PushSettlements
  private let looks = Nudge(isDue: true)
  private let state = Mutex(State())

  /// - Parameters:
  ///   - lanes: of all services; they outlive this. They try nothing again by themselves.
  ///   - attemptMax: far below the life of a claim.
  ///   - onEvent: called when there is an event to send.
  package init(
    _ service: NotificationService, store: any NotificationStore, lanes: [NotificationService: PushLane],
    clock: WallClock, logger: Logger, attemptMax: Duration = .seconds(30), onEvent: @escaping @Sendable () -> Void
  ) {
    self.service = service
    self.store = store
    self.lanes = lanes
    self.clock = clock
    self.logger = logger
    self.attemptMax = attemptMax
    self.onEvent = onEvent
    metrics = NotificationMetrics(service)
    settlements = PushSettlements(store: store, logger: logger)
  }

  /// There may be something to do.
  package func wake() { looks.wake() }

  /// Until shutdown; what is under way is finished.
  package func run() async throws {
    await withGracefulShutdownHandler {
      await withDiscardingTaskGroup { group in
        let ticking = Task { [looks] in await looks.wake(every: Self.interval, from: .afterInterval) }
        defer { ticking.cancel() }
        for await _ in looks {
          if state.withLock({ $0.isStopping }) { break }
          // From before the claim: the store's clock began later.
          let claimEnds = ContinuousClock.now + NotificationLimits.claim
          for job in await claim() {
            group.addTask { await self.carry(job, claimEnds) }
          }
        }
      }
    } onGracefulShutdown: { [self] in
      state.withLock { $0.isStopping = true }
      looks.wake()
    }
  }

  private var isHalted: Bool { lanes[service].map { !$0.isAvailable } ?? false }

  private func claim() async -> [NotificationJob] {
    guard lanes[service] != nil else { return [] }
    let isHalted = isHalted
    let room = state.withLock { isHalted ? min(1, 1 - $0.underWay) : Self.underWayMax - $0.underWay }
    guard room > 0 else { return [] }
    do throws(StoreError) {
      let jobs = try await store.claimPushes(of: service, limit: room, now: clock.now())
      state.withLock { state in
        state.underWay += jobs.count
        state.hasMore = jobs.count == room
      }
      return jobs
    } catch {
      logger.debug("pushes cannot be claimed", metadata: ["error": "\(error)"])
      return []
    }
  }

  private func carry(_ job: NotificationJob, _ claimEnds: ContinuousClock.Instant) async {
    // In a task of its own: what a push has come to is noted even when this one is cancelled.
    await Task {
      do {
        try await self.push(job, claimEnds)
      } catch {
        // The claim runs out, and the push is made again.
        self.logger.debug("the outcome of a push cannot be stored", metadata: ["error": "\(error)"])
      }
    }.value
    let hasMore = state.withLock { state in
      state.underWay -= 1
      // At half of the room, not for each: a look is a transaction.
      return state.hasMore && state.underWay <= Self.underWayMax / 2
    }
    // Nor while the provider takes nothing: then it is asked at the usual looks.
    if hasMore, !isHalted { looks.wake() }
  }

  private func push(_ job: NotificationJob, _ claimEnds: ContinuousClock.Instant) async throws {
    guard PushVerdict.isDue(job, at: clock.now()) else {
      metrics.dropped("expired")
      return await settlements.add(PushSettlement(job, .finished))
    }
    guard let lane = lanes[job.key.provider.service] else {
      // The app has changed its provider since. Some processes that look at this service's pushes may have both
      // providers.
      metrics.putOff()
      let later = clock.now().adding(Self.strangeKeyPause)
      return await settlements.add(PushSettlement(job, .putOff(until: later, isCounted: false)))
    }
    // Else somebody else may have it by the time of the answer, and would push it too.
    guard .now + Self.claimMargin <= claimEnds else { return }
    let outcome = await lane.send(ProviderPayload.message(job), deadline: .now + attemptMax)
    let now = clock.now()
    switch PushVerdict(outcome, of: job, at: now) {
    case .done:
      metrics.delivered()
      await settlements.add(PushSettlement(job, .finished))
    case .keyIsDead(let since):
      metrics.keyDied()
      if try await store.keyIsDead(job, since: since, now: now) {
        onEvent()
      } else {
        // If the app has another key by now, the push is for that one.
        await settlements.add(PushSettlement(job, .putOff(until: now, isCounted: true)))
        looks.wake()
      }
    case .again(let time, let isCounted):
      metrics.putOff()
      await settlements.add(PushSettlement(job, .putOff(until: time, isCounted: isCounted)))
    case .dropped(let word):
      metrics.dropped(word)
      logger.warning(
        "a push of a device notification is given up",
        metadata: ["service": "\(service.rawValue)", "reason": "\(word)", "attempts": "\(job.attempt)"])
      await settlements.add(PushSettlement(job, .finished))
    }
  }
}

/// Stores what has become of pushes, several at a time: what comes while others are being stored goes together.
final class PushSettlements: Sendable {
  private let calls: BatchedCalls<PushSettlement, Void>

  init(store: any NotificationStore, logger: Logger) {
    // As many as are under way at a time may wait.
    calls = BatchedCalls(
      bounds: .init(batch: .init(items: 500), waiting: .init(items: .max)), size: { _ in .init(items: 1) },
      run: { batch in
        do throws(StoreError) {
          try await store.settlePushes(batch.map(\.call))
        } catch {
          // The claims run out, and the pushes are made again.
          logger.debug("the outcome of pushes cannot be stored", metadata: ["error": "\(error)"])
        }
        for member in batch { member.end(with: ()) }
      })
  }

  /// Returns when it is stored, or cannot be.
  func add(_ settlement: PushSettlement) async { await calls.outcome(of: settlement) }
}
