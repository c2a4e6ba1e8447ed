package import Logging
package import RelayCore
import RelayWork
import ServiceLifecycle
import Synchronization

/// Keeps the directory in memory up to date (docs/directory.md): loads it, from its file or from the store, and
/// follows the store's feed of changes, by signal and by a poll.
///
/// One task writes the table. While the store is away the table goes on answering, and `relay_directory_lag_seconds`
/// says how old it is.
package final class DirectoryFollower: Service, DirectoryMirror {
  /// How often what is done.
  struct Pace: Sendable {
    /// Without a signal.
    var poll = Duration.milliseconds(500)
    /// Between two readings, so that a storm of signals is no storm of readings.
    var pause = Duration.milliseconds(10)
    /// One range is compared; all in some 20 minutes. A process with one part of several has fewer, and compares
    /// them that much less often, so that parts together read no more than one process with the whole directory.
    var check = Duration.seconds(5)
    /// Changes that are too old are forgotten.
    var prune = Duration.seconds(3600)
    /// The file is written, where something has changed.
    var save = Duration.seconds(600)
    /// The longest time that a caller waits to see its own change.
    var catchUpMax = Duration.seconds(1)
    /// A file that is not older may be shown before the feed was read to its end. It is written more often than that
    /// where something changes.
    var shownAgeMax = Duration.seconds(900)
    /// Changes that are read at once.
    var pageMax = 5_000
    /// The time in which a start tries to reach the feed's end before it shows such a file.
    var shownAfter = Duration.seconds(1)

    /// Until a process with `part` compares the next range. Processes that start together do not ask together.
    func checkPause(of part: DirectoryPartition) -> Duration {
      check * Double(part.count) * Double.random(in: 0.5...1.5)
    }
  }

  package typealias Store = DirectoryFeedStore & PeerStore & ServerSecretStore

  private let store: any Store
  private let signals: any SignalBus
  private let view: DirectoryView
  private let changesDays: Int
  private let logger: Logger
  private let pace: Pace
  private let reader: DirectoryReader
  private let drift: DriftCheck
  private let keeper: SnapshotKeeper
  private let metrics = DirectoryMetrics()
  private let catchUps = CatchUps()
  private let wakeUps = Nudge()

  /// - Parameters:
  ///   - snapshotPath: a file that is this operator's; where it cannot be written, each start reads the store.
  ///   - changesDays: how long the feed is kept, in whole days.
  package convenience init(
    store: any Store, signals: any SignalBus, view: DirectoryView, snapshotPath: String, changesDays: Int,
    logger: Logger
  ) {
    self.init(
      store: store, signals: signals, view: view, snapshotPath: snapshotPath, changesDays: changesDays, logger: logger,
      pace: Pace())
  }

  init(
    store: any Store, signals: any SignalBus, view: DirectoryView, snapshotPath: String, changesDays: Int,
    logger: Logger, pace: Pace
  ) {
    self.store = store
    self.signals = signals
    self.view = view
    self.changesDays = changesDays
    self.logger = logger
    self.pace = pace
    reader = DirectoryReader(store: store, view: view, pageMax: pace.pageMax)
    drift = DriftCheck(reader: reader, view: view, metrics: metrics, logger: logger)
    keeper = SnapshotKeeper(path: snapshotPath, store: store, view: view, interval: pace.save, logger: logger)
  }

  package func run() async throws {
    await cancelWhenGracefulShutdown { [self] in
      await withTaskGroup(of: Void.self) { group in
        group.addTask { await self.write() }
        group.addTask { await self.watch() }
        group.addTask { await self.keeper.run() }
      }
    }
    // On a task of its own: this one may be cancelled.
    await Task { await self.keeper.saveAtTheEnd() }.value
  }

  package func catchUp() async {
    // While the directory is being loaded, no look-up sees it.
    guard view.isReady else { return }
    await catchUps.wait(atMost: pace.catchUpMax) { wakeUps.wake() }
  }

  /// Shows how old the table is, also while the store keeps a reading waiting.
  private func watch() async {
    await wakeUps.wake(byFeed: signals, every: pace.poll) { metrics.show(view.table, now: .now) }
  }
}

// MARK: - The task that writes the table

extension DirectoryFollower {
  /// The state of the writing task between two rounds.
  private struct Writing {
    /// nil before the directory was loaded, and when it is to be read anew.
    var following: Following?
    /// The present reading: the last caller that waited when it began, its start, and whether it shows late changes.
    /// nil between readings.
    var reading: (number: UInt64, began: ContinuousClock.Instant, looksBack: Bool)?
    var checkDue: ContinuousClock.Instant
    var checks = 0
    var pruneDue: ContinuousClock.Instant
  }

  private func write() async {
    let now = ContinuousClock.now
    var writing = Writing(
      checkDue: now + pace.checkPause(of: view.part), pruneDue: now + pace.prune * Double.random(in: 0...1))
    var failures = FailureRow()
    for await _ in wakeUps {
      do throws(FollowFailure) {
        try await round(&writing)
        if failures.succeeded() { logger.notice("the directory follows the store again") }
        await Pause.for(pace.pause)
      } catch {
        guard !Task.isCancelled else { return }
        await failed(error, &failures, &writing)
      }
    }
  }

  private func failed(_ failure: FollowFailure, _ failures: inout FailureRow, _ writing: inout Writing) async {
    writing.reading = nil
    if case .forgotten = failure, writing.following != nil {
      logger.notice("the directory is read anew", metadata: ["reason": "\(failure)"])
      writing.following = nil
      wakeUps.wake()
      return
    }
    let (pause, isFirst) = failures.failed(random: .random(in: 0..<1))
    if isFirst {
      logger.warning(
        "the directory cannot follow the store, it answers as it was last", metadata: ["reason": "\(failure)"])
    }
    await Pause.for(pause)
  }

  private func round(_ writing: inout Writing) async throws(FollowFailure) {
    guard var following = writing.following else {
      writing.following = try await load()
      wakeUps.wake()
      return
    }
    // Kept where a step fails too: what it has done is done.
    defer { writing.following = following }
    let reading = writing.reading ?? (catchUps.begin(), .now, following.place.looksBack)
    writing.reading = reading
    let brought = try await reader.follow(&following)
    finish(brought, following)
    guard brought.isWhole else {
      wakeUps.wake()
      return
    }
    writing.reading = nil
    if reading.looksBack {
      catchUps.finish(reading.number)
      metrics.isCurrent(asOf: reading.began)
    }
    guard following.work.isEmpty else {
      try await reader.work(&following)
      wakeUps.wake()
      return
    }
    try await chores(&writing, &following)
  }

  private func finish(_ brought: Brought, _ following: Following) {
    metrics.changed(brought.count)
    view.recent.advance(to: following.applied)
    if view.relays.hasNewlyRefused() {
      logger.error(
        "more peers have been copied than the directory has numbers for, it leaves the last ones out until a restart",
        metadata: ["max": "\(TokenEntry.relayMax)"])
    }
  }

  private func chores(_ writing: inout Writing, _ following: inout Following) async throws(FollowFailure) {
    let now = ContinuousClock.now
    if now >= writing.pruneDue {
      writing.pruneDue = now + pace.prune
      try await FollowFailure.storing { () async throws(StoreError) in
        try await store.pruneDirectoryChanges(olderThan: changesDays)
      }
    }
    if now >= writing.checkDue {
      writing.checkDue = now + pace.checkPause(of: view.part)
      writing.checks &+= 1
      try await drift.check(writing.checks, &following)
      view.recent.advance(to: following.applied)
    }
  }

  /// From the file where it is good and the feed goes back to it, else from the store; then the feed is read to its
  /// end, and only then the table is shown. A young file is shown earlier if the feed is long: the rounds that follow
  /// read on.
  private func load() async throws(FollowFailure) -> Following {
    let began = ContinuousClock.now
    var following: Following
    var source = "file"
    var age: Duration?
    if !view.isReady, let saved = await keeper.load(), try await reader.goesBack(to: saved.following.applied) {
      (following, age) = (saved.following, saved.age)
    } else {
      source = "store"
      following = try await reader.readWhole()
    }
    let loaded = ContinuousClock.now
    let isBehind = try await catchUp(
      &following, showsAfter: age.flatMap { $0 <= pace.shownAgeMax ? pace.shownAfter : nil })
    let (recent, since) = try await FollowFailure.storing { () async throws(StoreError) in
      try await store.recentDirectoryChanges(limit: RecentChanges.tokensMax / 2)
    }
    view.begin(following, recent: recent, since: since)
    metrics.isCurrent(asOf: isBehind ? began - (age ?? .zero) : loaded)
    keeper.loaded(isFromFile: source == "file")
    logger.notice(
      "directory loaded",
      metadata: [
        "from": "\(source)", "entries": "\(following.table.count)", "behind": "\(isBehind)",
        "milliseconds": "\(Int((ContinuousClock.now - began) / .milliseconds(1)))",
      ])
    return following
  }

  /// Reads the feed to its end.
  /// - Parameter limit: after it, reading stops; nil: it goes on however long it takes.
  /// - Returns: whether more is to be read.
  private func catchUp(_ following: inout Following, showsAfter limit: Duration?) async throws(FollowFailure) -> Bool {
    let deadline = limit.map { ContinuousClock.now + $0 }
    while !(try await reader.follow(&following).isWhole) || !following.work.isEmpty {
      if let deadline, deadline <= .now { return true }
      try await reader.work(&following)
    }
    return false
  }
}
