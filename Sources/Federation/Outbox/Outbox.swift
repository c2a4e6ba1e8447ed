package import Logging
package import RelayCore
import RelayHTTP
import ServiceLifecycle
import Synchronization

/// Holds messages for peers that cannot be reached, and hands them over when they can be (docs/federation.md, "The
/// outbox").
///
/// What `hold` has returned for is durable. One process at a time hands a peer's messages over; each sees within two
/// seconds that something waits, and within one that a peer is back. A message leaves the store only after the peer
/// has it, or its sender's devices have been told: killed anywhere, a process leaves nothing undone that the next one
/// does not do again, without harm.
package final class Outbox: Service {
  private struct State {
    var view = OutboxView()
    var confirmations = ConfirmationMemory()
    /// Peers whose outbox this process is working on.
    var busy: Set<RelayName> = []
    /// Peers that are left alone, and until when.
    var paused: [RelayName: ContinuousClock.Instant] = [:]
    var reachable: Set<RelayName> = []
    var lastReading: ContinuousClock.Instant?
    var isFailing = false
  }
  private enum Confirmation: Sendable {
    case confirmed([ConfirmedDevice], ConfirmationMemory.Key, at: Timestamp)
    case contradicted(ConfirmationMemory.Key)
  }

  private let store: any OutboxStore & LeaseStore
  private let registry: PeerRegistry
  private let drain: OutboxDrain
  private let lease: OutboxLease
  private let bounds: OutboxBounds
  private let clock: WallClock
  private let logger: Logger
  private let metrics = OutboxMetrics()
  private let state = Mutex(State())
  private let confirmations: AsyncStream<Confirmation>
  private let confirming: AsyncStream<Confirmation>.Continuation

  /// What a peer confirmed longer ago counts no more.
  static let confirmationLife = Duration.seconds(86_400)
  /// How often a process looks at conditions.
  private static let tick = Duration.seconds(1)
  /// How often it reads what waits.
  private static let readingInterval = Duration.seconds(2)
  /// How long a peer is left alone that serves nothing of what it is asked.
  private static let strugglePause = Duration.seconds(5)
  private static let pauseMax = Duration.seconds(30)
  /// What a few busy seconds bring while the store is slow; what comes on top is confirmed by the next message.
  private static let confirmationsMax = 4096
  private static let away = Problem(.peerUnavailable, retryAfter: .seconds(2))
  /// Room comes with the peer's return, or by age.
  private static let full = Problem(.peerUnavailable, retryAfter: .seconds(30), reason: "the peer's outbox is full")

  package convenience init(
    store: any OutboxStore & LeaseStore, registry: PeerRegistry, handOvers: HandOverSender, intake: any Intake,
    bounds: OutboxBounds, clock: WallClock, logger: Logger
  ) {
    self.init(
      store: store, registry: registry, handOvers: handOvers, intake: intake, bounds: bounds, clock: clock,
      logger: logger, holder: .random(in: 1...Int64.max))
  }

  init(
    store: any OutboxStore & LeaseStore, registry: PeerRegistry, handOvers: HandOverSender, intake: any Intake,
    bounds: OutboxBounds, clock: WallClock, logger: Logger, holder: Int64
  ) {
    self.store = store
    self.registry = registry
    self.bounds = bounds
    self.clock = clock
    self.logger = logger
    lease = OutboxLease(store: store, holder: holder)
    drain = OutboxDrain(
      store: store, handOvers: handOvers, removal: OutboxRemoval(store: store, intake: intake, metrics: metrics),
      policy: OutboxPolicy(age: bounds.age), clock: clock)
    (confirmations, confirming) = AsyncStream.makeStream(bufferingPolicy: .bufferingOldest(Self.confirmationsMax))
  }

  /// Whether something is held for `destination`, so that what is sent now must wait too. Costs no read while the peer
  /// can be reached and nothing waits for it.
  func mustWait(for destination: AccountNumber, at peer: KnownPeer) async throws(Problem) -> Bool {
    let isReachable = peer.peer.condition.isReachable
    guard state.withLock({ $0.view.mustLookUp(peer.name, isReachable: isReachable) }) else { return false }
    return try await storing { () async throws(StoreError) in
      try await store.isHeld(for: destination, at: peer.name)
    }
  }

  /// Accepts `message`, which has a timestamp, in the peer's place. Durable on return; safe to repeat.
  /// - Throws: `.peerUnavailable` when the peer has not confirmed the destination's devices within a day, or its outbox
  ///   is full; `.mismatchedDevices` and `.staleDevices` by the devices that it confirmed; `.unavailable`.
  func hold(_ message: OutgoingMessage, for peer: KnownPeer) async throws(Problem) {
    let now = clock.now()
    let destination = message.submission.destination
    let confirmed = try await storing { () async throws(StoreError) in
      try await store.confirmedDevices(of: destination, at: peer.name, since: now.adding(.zero - Self.confirmationLife))
    }
    guard let confirmed else { throw Self.away }
    try message.submission.check(against: confirmed)
    state.withLock { $0.view.willHold(for: peer.name) }
    let isHeld = try await storing { () async throws(StoreError) in
      try await store.hold(message, bounds: bounds, now: now)
    }
    guard isHeld else { throw Self.full }
    metrics.messageHeld()
  }

  /// The peer has accepted `submission`: its devices are all that the destination has.
  ///
  /// Written behind the sender's back, and only when it is news, or the last writing was an hour ago.
  func confirmed(_ submission: Submission, at peer: KnownPeer) async {
    guard peer.peer.policy.holdsMessages, let devices = submission.confirmedDevices else { return }
    let key = ConfirmationMemory.Key(account: submission.destination, relay: peer.name)
    let news = state.withLock { $0.confirmations.confirmed(devices, of: key, at: .now) }
    guard let news else { return }
    if case .dropped = confirming.yield(.confirmed(news, key, at: clock.now())) {
      state.withLock { $0.confirmations.forget(key) }
    }
  }

  /// The peer has refused a submission for `destination`: what it confirmed before is not so any more.
  func contradicted(_ destination: AccountNumber, at peer: KnownPeer) async {
    guard peer.peer.policy.holdsMessages else { return }
    let key = ConfirmationMemory.Key(account: destination, relay: peer.name)
    state.withLock { $0.confirmations.forget(key) }
    // In the order of what was confirmed; a full queue makes the caller wait.
    if case .dropped = confirming.yield(.contradicted(key)) { await write(.contradicted(key)) }
  }

  package func run() async throws {
    registry.onChange { [weak self] table in self?.peersChanged(table) }
    await cancelWhenGracefulShutdown { [self] in
      await withDiscardingTaskGroup { group in
        group.addTask {
          for await confirmation in self.confirmations { await self.write(confirmation) }
        }
        while !Task.isCancelled {
          for relay in await outboxesToTend() {
            group.addTask {
              await self.tend(relay)
              self.state.withLock { _ = $0.busy.remove(relay) }
            }
          }
          // Only cancellation throws here, and the loop's condition sees it.
          try? await Task.sleep(for: Self.tick)
        }
      }
    }
  }

  /// At once, not at the next look: a peer may be back by then.
  private func peersChanged(_ table: PeerTable) {
    let away = table.byName.values.filter { !$0.peer.condition.isReachable }
    state.withLock { state in
      for peer in away { state.view.becameUnreachable(peer.name) }
    }
  }

  private func write(_ confirmation: Confirmation) async {
    do throws(StoreError) {
      switch confirmation {
      case .confirmed(let devices, let key, let now):
        try await store.confirmDevices(devices, of: key.account, at: key.relay, now: now)
      case .contradicted(let key): try await store.forgetConfirmedDevices(of: key.account, at: key.relay)
      }
    } catch {
      logger.debug("what a peer confirmed could not be noted", metadata: ["error": "\(error)"])
      if case .confirmed(_, let key, _) = confirmation { state.withLock { $0.confirmations.forget(key) } }
    }
  }
}

extension Outbox {
  /// Reads what waits when it is time to, or a peer is back.
  /// - Returns: the peers with something to do, marked as busy.
  private func outboxesToTend() async -> [RelayName] {
    let reachable = Set(registry.peers.filter { $0.isActive && $0.peer.condition.isReachable }.map(\.name))
    let (isDue, began) = state.withLock { state in
      for gone in state.reachable.subtracting(reachable) { state.view.becameUnreachable(gone) }
      let back = reachable.subtracting(state.reachable)
      state.reachable = reachable
      // What it was left alone for is over.
      for relay in back { state.paused[relay] = nil }
      let isDue = !back.isEmpty || state.lastReading.map { .now - $0 >= Self.readingInterval } ?? true
      return (isDue, state.view.readingBegan())
    }
    guard isDue else { return [] }
    let usage: [OutboxUsage]
    do throws(StoreError) {
      usage = try await store.outboxUsage()
    } catch {
      report(failure: "\(error)")
      return []
    }
    let now = clock.now()
    metrics.show(usage, at: now)
    return state.withLock { state in
      state.lastReading = .now
      state.view.readingEnded(began, of: reachable, full: Set(usage.map(\.relay)))
      state.paused = state.paused.filter { $0.value > .now }
      return usage.filter { entry in
        let isDeliverable =
          reachable.contains(entry.relay) && entry.nextAttempt <= now && state.paused[entry.relay] == nil
        guard isDeliverable || drain.policy.isTooOld(entry.oldest, at: now) else { return false }
        return state.busy.insert(entry.relay).inserted
      }.map(\.relay)
    }
  }

  private func tend(_ relay: RelayName) async {
    do throws(Problem) {
      // Another process may have the lease: then it does the work.
      _ = try await lease.hold(for: relay) { [self] () async throws(Problem) in try await work(on: relay) }
      let wasFailing = state.withLock { state in
        defer { state.isFailing = false }
        return state.isFailing
      }
      if wasFailing { logger.notice("the outbox can be worked on again") }
    } catch {
      if !Task.isCancelled { report(failure: error.reason ?? error.kind.rawValue) }
    }
  }

  private func work(on relay: RelayName) async throws(Problem) {
    var tally = OutboxDrain.Tally()
    defer { log(tally, relay) }
    tally.givenUp = try await drain.expire(relay)
    guard let peer = registry.current.byName[relay], peer.isActive, peer.peer.condition.isReachable else { return }
    let began = ContinuousClock.now
    switch try await drain.drain(peer, &tally) {
    case .done:
      // Reading the same again and again must not take more than a fifth of the time.
      if tally.isMostlySkipped { pause(relay, for: min((ContinuousClock.now - began) * 4, Self.pauseMax)) }
    case .struggling:
      pause(relay, for: Self.strugglePause)
      logger.info("a peer takes none of the messages that wait for it", metadata: ["peer": "\(relay)"])
    case .failed(let failure):
      logger.debug(
        "messages for a peer wait on", metadata: ["peer": "\(relay)", "reason": "\(failure)"])
    }
  }

  private func pause(_ relay: RelayName, for duration: Duration) {
    state.withLock { $0.paused[relay] = .now + duration }
  }

  private func log(_ tally: OutboxDrain.Tally, _ relay: RelayName) {
    if tally.delivered > 0 {
      logger.info(
        "messages that waited for a peer were handed over",
        metadata: ["peer": "\(relay)", "messages": "\(tally.delivered)"])
    }
    if tally.givenUp > 0 {
      logger.warning(
        "messages for a peer were given up; their senders have been told",
        metadata: ["peer": "\(relay)", "messages": "\(tally.givenUp)"])
    }
  }

  private func report(failure reason: String) {
    let isFirst = state.withLock { state in
      defer { state.isFailing = true }
      return !state.isFailing
    }
    if isFirst { logger.error("the outbox cannot be worked on", metadata: ["reason": "\(reason)"]) }
  }
}
