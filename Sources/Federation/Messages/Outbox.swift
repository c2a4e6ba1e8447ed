package import Logging
package import RelayCore
import RelayHTTP
import RelayWork
import ServiceLifecycle
import Synchronization

/// Holds messages for peers that cannot be reached, and hands them over when they can be (docs/federation.md, "The
/// outbox").
///
/// A message is durable when `hold` returns for it. One process at a time hands a peer's messages over, of those that
/// have this work. Each process sees within two seconds that something waits, and within one that a peer is back. A
/// message leaves the store only after the peer has it, or its sender's devices have been told. If a process is killed
/// at any point, the next one repeats the unfinished work without harm.
package final class Outbox: Service {
  private struct State {
    var view = OutboxView()
    var gathering: [RelayName: GatheringHolds] = [:]
    /// Peers whose outbox this process is working on.
    var busy: Set<RelayName> = []
    var pauses = OutboxPauses()
    var reachable: Set<RelayName> = []
    /// Peers that could not be reached, or were suspended, when this process looked, or once since.
    var away: Set<RelayName> = []
    /// Peers that are back: what was put off before is due.
    var returned: Set<RelayName> = []
    var lastReading: ContinuousClock.Instant?
    var isFailing = false
  }

  private let store: any OutboxStore & LeaseStore
  private let registry: PeerRegistry
  /// Whether this process hands over what waits. One that does not still holds messages, and knows what waits.
  private let handsOver: Bool
  private let drain: OutboxDrain
  private let lease: Lease<StoreError>
  private let acceptance: OutboxAcceptance
  private let clock: JudgedClock
  private let logger: Logger
  private let metrics = OutboxMetrics()
  private let state = Mutex(State())
  private let confirmations: Confirmations

  /// How often a process looks at conditions.
  package static let tick = Duration.seconds(1)
  /// How often it reads what waits.
  package static let readingInterval = Duration.seconds(2)
  /// How long a peer is left alone that serves nothing of what it is asked.
  package static let strugglePause = Duration.seconds(5)
  private static let pauseMax = Duration.seconds(30)
  /// For what the loss ledger still has to count when the process ends.
  private static let farewell = Duration.seconds(2)

  /// - Parameters:
  ///   - handsOver: whether this process hands over what waits, or leaves that to others.
  ///   - holder: of leases; another one in each process.
  package init(
    store: any OutboxStore & LeaseStore, registry: PeerRegistry, requests: HandOverRequests, intake: any Intake,
    bounds: OutboxBounds, handsOver: Bool = true, clock: JudgedClock, logger: Logger,
    holder: Int64 = .random(in: 1...Int64.max)
  ) {
    self.store = store
    self.registry = registry
    self.handsOver = handsOver
    acceptance = OutboxAcceptance(
      store: store, bounds: bounds, clock: clock, metrics: metrics, ledger: requests.ledger)
    self.clock = clock
    self.logger = logger
    lease = store.lease(holder: holder)
    confirmations = Confirmations(store: store, clock: clock.wall, logger: logger)
    drain = OutboxDrain(
      store: store, requests: requests, confirmations: confirmations,
      removal: OutboxRemoval(store: store, intake: intake, metrics: metrics, ledger: requests.ledger),
      policy: OutboxPolicy(age: bounds.age),
      clock: clock)
  }

  /// - Returns: those of `destinations` for which something is held, so that what is sent now must wait too. Costs no
  ///   read while the peer can be reached and nothing waits for it.
  func mustWait(_ destinations: [AccountNumber], at peer: KnownPeer) async throws(Problem) -> Set<AccountNumber> {
    let isReachable = peer.peer.condition.isReachable
    guard state.withLock({ $0.view.mustLookUp(peer.name, isReachable: isReachable) }) else { return [] }
    return try await storing { () async throws(StoreError) in
      try await store.destinationsHeld(among: destinations, at: peer.name)
    }
  }

  /// As `mustWait`, for a peer whose messages are not held any more.
  func holdsAny(for destination: AccountNumber, at peer: KnownPeer) async throws(PeerFailure) -> Bool {
    do throws(Problem) {
      return try await !mustWait([destination], at: peer).isEmpty
    } catch {
      throw .busy
    }
  }

  /// Accepts `messages` for `peer`, which have timestamps, in its place and in their order. A message with the answer
  /// nil is durable. Safe to repeat. Calls that arrive while others of the same peer are being stored are stored
  /// together.
  /// - Returns: for each message nil, or why it is not held. `.peerUnavailable`: the peer has not confirmed the
  ///   destination's devices within a day, or its outbox is full. `.mismatchedDevices` and `.staleDevices`: by the
  ///   devices that the peer confirmed. `.unavailable`.
  func hold(_ messages: [PeerSubmission], for peer: KnownPeer) async -> [Problem?] {
    // Before, so that what follows asks; and behind the commit, which a reading that has just ended may not have seen.
    state.withLock { $0.view.willHold(for: peer.name) }
    defer { state.withLock { $0.view.willHold(for: peer.name) } }
    let problems = await gathering(for: peer.name).hold(messages)
    await hurry(
      zip(messages, problems).filter { $1?.kind == .peerUnavailable }.map(\.0.submission.destination), at: peer)
    return problems
  }

  /// Clients are refused because of what waits for `destinations`: where the peer was only in trouble for a while,
  /// that has not to wait for its next attempt, which may be minutes away.
  private func hurry(_ destinations: [AccountNumber], at peer: KnownPeer) async {
    guard !destinations.isEmpty, peer.canBeReached else { return }
    do throws(StoreError) {
      try await store.makeDue(for: peer.name, among: Array(Set(destinations)), now: clock.now())
    } catch {
      logger.debug("what waits for a peer could not be hurried", metadata: ["error": "\(error)"])
    }
  }

  private func gathering(for relay: RelayName) -> GatheringHolds {
    state.withLock { state in
      if let known = state.gathering[relay] { return known }
      let made = GatheringHolds { [acceptance] in await acceptance.accept($0, for: relay) }
      state.gathering[relay] = made
      return made
    }
  }

  /// The peer has answered `submission`, which was sent to it at once.
  func answered(_ submission: Submission, with verdict: HandOverAnswer.Verdict, by peer: KnownPeer) async {
    await confirmations.answered(submission, with: verdict, by: peer)
  }

  package func run() async throws {
    registry.onChange { [weak self] table in self?.peersChanged(table) }
    confirmations.peersChanged(registry.peers)
    await cancelWhenGracefulShutdown { [self] in
      await withDiscardingTaskGroup { group in
        group.addTask { await self.confirmations.run() }
        for await _ in Periodic(every: Self.tick) {
          for relay in await outboxesToTend() {
            group.addTask {
              await self.tend(relay)
              self.state.withLock { _ = $0.busy.remove(relay) }
            }
          }
        }
      }
    }
    await drain.requests.ledger.settle(until: .now + Self.farewell)
  }

  /// At once, not at the next look: a peer may be back by then.
  private func peersChanged(_ table: PeerTable) {
    confirmations.peersChanged(table.byName.values)
    let away = table.byName.values.filter { !$0.canBeReached }.map(\.name)
    state.withLock { state in
      state.away.formUnion(away)
      for relay in away { state.view.becameUnreachable(relay) }
    }
  }
}

extension Outbox {
  /// Reads what waits when it is time to, or a peer is back.
  /// - Returns: the peers with something to do, marked as busy; none where that is left to others.
  private func outboxesToTend() async -> [RelayName] {
    let peers = registry.peers
    let reachable = Set(peers.filter(\.canBeReached).map(\.name))
    let away = Set(peers.map(\.name)).subtracting(reachable)
    let (isDue, began) = state.withLock { state in
      for gone in state.reachable.subtracting(reachable) { state.view.becameUnreachable(gone) }
      let back = reachable.intersection(state.away)
      let isNews = !back.isEmpty || !reachable.isSubset(of: state.reachable)
      state.reachable = reachable
      state.away = away
      state.returned = state.returned.intersection(reachable).union(back)
      // The reason for their pause is gone.
      for relay in back { state.pauses.end(of: relay) }
      let isDue = isNews || state.lastReading.map { .now - $0 >= Self.readingInterval } ?? true
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
    let (now, past) = (clock.now(), clock.removal())
    metrics.show(usage, at: now)
    return state.withLock { state in
      state.lastReading = .now
      state.view.readingEnded(began, of: reachable, full: Set(usage.map(\.relay)))
      state.pauses.readingEnded(usage, at: .now)
      // Nothing waits for the others.
      state.returned.formIntersection(usage.map(\.relay))
      guard handsOver else { return [] }
      return usage.filter { entry in
        let isDue = OutboxPolicy.isDue(entry.nextAttempt, at: now) || state.returned.contains(entry.relay)
        let isDeliverable = reachable.contains(entry.relay) && isDue && !state.pauses.isPaused(entry.relay)
        guard isDeliverable || isToExpire(entry, at: past, state) else { return false }
        return state.busy.insert(entry.relay).inserted
      }.map(\.relay)
    }
  }

  private func isToExpire(_ usage: OutboxUsage, at now: Timestamp, _ state: State) -> Bool {
    drain.policy.isTooOld(usage.oldest, at: now) && !state.pauses.isUntold(usage.relay)
  }

  private func tend(_ relay: RelayName) async {
    do throws(Problem) {
      // Another process may have the lease: then it does the work.
      let outcome = try await storing { () async throws(StoreError) in
        try await lease.hold(Self.leaseName(relay)) { await self.outcome(on: relay) }
      }
      try outcome?.get()
      let wasFailing = state.withLock { state in
        defer { state.isFailing = false }
        return state.isFailing
      }
      if wasFailing { logger.notice("the outbox can be worked on again") }
    } catch {
      if !Task.isCancelled { report(failure: error.reason ?? error.kind.rawValue) }
    }
  }

  /// The lease of whoever works on what waits for `relay`.
  static func leaseName(_ relay: RelayName) -> String { "outbox \(relay)" }

  private func outcome(on relay: RelayName) async -> Result<Void, Problem> {
    do throws(Problem) {
      return .success(try await work(on: relay))
    } catch {
      return .failure(error)
    }
  }

  private func work(on relay: RelayName) async throws(Problem) {
    var tally = OutboxDrain.Tally()
    defer { log(tally, relay) }
    if !state.withLock({ $0.pauses.isUntold(relay) }) {
      try await drain.expire(relay, &tally)
      if tally.untold > 0 { state.withLock { $0.pauses.beginUntold(relay, at: .now) } }
    }
    guard let peer = registry.current.byName[relay], peer.canBeReached else { return }
    if state.withLock({ $0.returned.remove(relay) != nil }) { try await makeDue(relay) }
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

  /// Messages that were put off because of the peer's trouble before it was away are tried now that it is back.
  private func makeDue(_ relay: RelayName) async throws(Problem) {
    _ = try await storing { () async throws(StoreError) in try await store.makeDue(for: relay, now: clock.now()) }
  }

  private func pause(_ relay: RelayName, for duration: Duration) {
    state.withLock { $0.pauses.begin(of: relay, until: .now + duration) }
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
    if tally.dropped > 0 {
      logger.warning(
        "messages for a peer were given up whose senders had no room for the word of it",
        metadata: ["peer": "\(relay)", "messages": "\(tally.dropped)"])
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

extension KnownPeer {
  fileprivate var canBeReached: Bool { isActive && peer.condition.isReachable }
}
