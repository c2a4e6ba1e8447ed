package import Logging
package import RelayCore
import RelayWork
import ServiceLifecycle
import Synchronization

/// Keeps an output of the oblivious pseudorandom function for every contact of the directory (docs/directory.md,
/// "Oblivious look-up"), and the key of it in this process.
///
/// One process of an operator at a time does the work, by a lease: it follows the feed of the directory's changes, one
/// thread computes, and between two readings some contacts of what is left over have their turn. The others wait for
/// the lease.
package final class ObliviousIndexer: Service {
  /// How often what is done.
  struct Pace: Sendable {
    /// Without a signal.
    var poll = Duration.milliseconds(500)
    /// Between two rounds: what the work leaves to others.
    var pause = Duration.milliseconds(20)
    /// Another process takes over so long after this one has died.
    var lease = Duration.seconds(30)
    var leaseRenewal = Duration.seconds(8)
    var leaseTry = Duration.seconds(5)
    /// The key is read again.
    var key = Duration.seconds(10)
  }

  package typealias Store = DirectoryFeedStore & ObliviousStore & LeaseStore & PeerStore

  /// Knows the key once `run` has read it.
  package let keyring: ObliviousKeyring
  let metrics = ObliviousMetrics()
  /// Evaluations for clients use them too.
  let threads = ObliviousThreads()
  let clock: WallClock
  private let store: any Store
  private let signals: any SignalBus
  private let logger: Logger
  private let pace: Pace
  private let index: ObliviousIndex
  private let lease: Lease<StoreError>
  private let wakeUps = Nudge()
  /// When the last reading began that reached the feed's end, or this process took the work over; nil where another
  /// does it.
  private let current = Mutex<ContinuousClock.Instant?>(.now)

  static let leaseName = "directory-oblivious"

  package convenience init(
    store: any Store & ServerSecretStore, signals: any SignalBus, clock: WallClock, logger: Logger
  ) {
    self.init(store: store, signals: signals, clock: clock, logger: logger, pace: Pace())
  }

  init(store: any Store & ServerSecretStore, signals: any SignalBus, clock: WallClock, logger: Logger, pace: Pace) {
    self.store = store
    self.signals = signals
    self.clock = clock
    self.logger = logger
    self.pace = pace
    lease = store.lease(holder: .random(in: .min ... .max), lasting: pace.lease)
    keyring = ObliviousKeyring(store: store)
    index = ObliviousIndex(store: store, metrics: metrics, threads: threads, clock: clock)
  }

  package func run() async throws {
    await cancelWhenGracefulShutdown { [self] in
      await withTaskGroup(of: Void.self) { group in
        group.addTask { await self.tend() }
        group.addTask { await self.watch() }
      }
    }
    // On a task of its own: this one may be cancelled. A lease that cannot be given up ends by itself.
    await Task { [lease] in
      do throws(StoreError) { try await lease.release(Self.leaseName) } catch {}
    }.value
  }

  /// Shows how far the outputs are behind, also while the store keeps a round waiting.
  private func watch() async {
    await wakeUps.wake(byFeed: signals, every: pace.poll) { metrics.show(lag: lag) }
  }
}

// MARK: - The task that works

extension ObliviousIndexer {
  /// The state of the working task between two rounds.
  private struct Tending {
    var keyDue = ContinuousClock.now
    var leaseDue = ContinuousClock.now
    var holdsLease = false
    /// nil without the lease, and when it is to be read anew.
    var indexing: ObliviousIndexing?
  }

  private func tend() async {
    var tending = Tending()
    var failures = FailureRow()
    for await _ in wakeUps {
      do throws(FollowFailure) {
        let isMore = try await round(&tending)
        if failures.succeeded() { logger.notice("oblivious look-ups follow the directory again") }
        metrics.show(
          pending: tending.indexing?.work.pending ?? 0,
          ranges: tending.indexing.map { DirectoryRange.all.count - $0.work.rangesDone } ?? 0)
        if isMore { wakeUps.wake() }
        await Pause.for(pace.pause)
      } catch {
        guard !Task.isCancelled else { return }
        await failed(error, &failures, &tending)
      }
    }
  }

  private func failed(_ failure: FollowFailure, _ failures: inout FailureRow, _ tending: inout Tending) async {
    tending.indexing = nil
    tending.leaseDue = .now
    let (pause, isFirst) = failures.failed(random: .random(in: 0..<1))
    if isFirst {
      logger.warning(
        "oblivious look-ups cannot follow the directory, they answer as they did last",
        metadata: ["reason": "\(failure)"])
    }
    await Pause.for(pause)
  }

  /// - Returns: whether there is more to do at once.
  private func round(_ tending: inout Tending) async throws(FollowFailure) -> Bool {
    try await refreshKey(&tending)
    try await takeLease(&tending)
    guard tending.holdsLease, let key = keyring.key else {
      tending.indexing = nil
      current.withLock { $0 = nil }
      return false
    }
    if tending.indexing?.key.id != key.id { tending.indexing = nil }
    guard var indexing = tending.indexing else {
      tending.indexing = try await index.begin(with: key)
      return true
    }
    let began = ContinuousClock.now
    do throws(FollowFailure) {
      guard try await index.follow(&indexing) else {
        tending.indexing = indexing
        return true
      }
    } catch .forgotten {
      logger.notice(
        "oblivious look-ups go through the whole directory again",
        metadata: ["reason": "\(FollowFailure.forgotten)"])
      tending.indexing = try await index.beginAnew(with: key, over: indexing.progress)
      return true
    }
    current.withLock { $0 = began }
    try await index.work(&indexing)
    tending.indexing = indexing
    return indexing.work.step != nil
  }

  private func refreshKey(_ tending: inout Tending) async throws(FollowFailure) {
    guard ContinuousClock.now >= tending.keyDue else { return }
    try await FollowFailure.storing { () async throws(StoreError) in _ = try await keyring.refresh() }
    tending.keyDue = .now + pace.key
  }

  private func takeLease(_ tending: inout Tending) async throws(FollowFailure) {
    guard ContinuousClock.now >= tending.leaseDue else { return }
    // Should it be lost during a step, that step's writing finds another one's there, or is as good as that one's.
    let isOurs = try await FollowFailure.storing { () async throws(StoreError) in
      try await lease.acquire(Self.leaseName)
    }
    // The process that held the lease meanwhile has gone on.
    if isOurs, !tending.holdsLease { tending.indexing = nil }
    tending.holdsLease = isOurs
    if isOurs { current.withLock { $0 = $0 ?? .now } }
    tending.leaseDue = .now + (isOurs ? pace.leaseRenewal : pace.leaseTry)
  }

  /// How far the outputs are behind the directory at most, also while the feed cannot be read; zero where another
  /// process does the work.
  var lag: Duration { current.withLock { $0 }.map { ContinuousClock.now - $0 } ?? .zero }
}
