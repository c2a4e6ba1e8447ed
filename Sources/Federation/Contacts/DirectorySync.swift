package import Logging
import Metrics
package import RelayCore
import RelayHTTP
import RelayMetrics
import RelayWork
import ServiceLifecycle
import Synchronization

/// Keeps the contact tokens of peers current (docs/federation.md, "The directory"; reference 1.13.5).
///
/// Asks each active peer whose contacts are copied for the changes in its listing. A peer that can keeps the question
/// until there are some, and is asked on then. Any other is asked every few seconds. Peers are asked side by side, with
/// one reading at a time each: a slow peer delays no other. One process of the operator follows a peer: the one that
/// holds the lease `directory NAME`. If that process ends or dies, another takes over. If a peer is not to be copied
/// any more, its copied contacts are removed.
package final class DirectorySync: Service {
  private let registry: PeerRegistry
  private let puller: DirectoryPuller
  private let signals: any SignalBus
  private let interval: Duration
  private let lease: Lease<StoreError>
  private let contactsMax: Int
  private let logger: Logger
  private let states = Mutex<[RelayName: FollowedPeer]>([:])
  private let refusedClaims = PeerCounters(RelayMetric.contacts.claimsRefused)

  /// - Parameters:
  ///   - signals: tells this operator's processes that contacts have changed.
  ///   - interval: from one round to the next.
  ///   - wait: how long a peer may keep a question; nil for half of a request's time-out. The other half is left for
  ///     the answer: so a peer that waits is no silent one, and one that has vanished is found out as soon as any.
  ///   - contactsMax: contacts that one peer may claim; what it lists beyond is not taken up.
  ///   - holder: a random number of this process.
  package init(
    registry: PeerRegistry, transport: PeerTransport, directory: any DirectoryStore & LeaseStore,
    signals: any SignalBus, clock: WallClock, interval: Duration = .seconds(2), wait: Duration? = nil,
    contactsMax: Int = 5_000_000, holder: Int64 = .random(in: 1 ... .max), logger: Logger
  ) {
    self.registry = registry
    self.signals = signals
    self.interval = interval
    self.contactsMax = contactsMax
    self.logger = logger
    // Three rounds, but not less than a busy store takes, nor more than another process should wait.
    lease = directory.lease(holder: holder, lasting: min(max(interval * 3, .seconds(1)), .seconds(10)))
    puller = DirectoryPuller(
      reader: ListingReader(transport: transport), directory: directory, clock: clock,
      wait: wait ?? transport.limits.requestTimeout / 2)
  }

  package func run() async throws {
    let wakeUps = Nudge()
    // A new peer, or one with another policy, does not wait for the next round.
    registry.onChange(ofConditions: false) { _ in wakeUps.wake() }
    await cancelWhenGracefulShutdown { [self] in
      await withDiscardingTaskGroup { group in
        group.addTask { await wakeUps.wake(every: self.interval) }
        for await _ in wakeUps {
          let peers = registry.peers.filter(\.isActive)
          dropStates(except: peers)
          for peer in peers {
            guard let state = begin(peer.name) else { continue }
            group.addTask {
              self.end(peer.name, await self.round(peer, state))
              // The word of a change may have found it busy.
              if !self.isCurrent(peer) { wakeUps.wake() }
            }
          }
        }
      }
    }
    // On a task of its own: this one may be cancelled, and whoever takes over should not have to wait.
    await Task { await releaseLeases() }.value
  }

  /// One round: takes or keeps the lease, and does what the peer's policy wants.
  private func round(_ peer: KnownPeer, _ state: FollowedPeer) async -> FollowedPeer {
    var state = state
    do throws(SyncFailure) {
      if peer.isCopied {
        let followed = try await SyncFailure.storing { () async throws(StoreError) in
          try await lease.keep(Self.leaseName(peer.name)) { [state] in await self.follow(peer, state) }
        }
        guard let followed else { throw .displaced }
        return followed
      }
      if try await puller.forget(peer, turn: turn(of: peer)) {
        logger.notice("contacts of peer removed, they are not to be copied", metadata: ["peer": "\(peer.name)"])
        state.stopShowing()
      }
      succeeded(peer.name, &state)
    } catch {
      failed(error, of: peer.name, &state)
    }
    return state
  }

  /// Asks until the peer does not keep our questions. The lease is renewed beside it.
  private func follow(_ peer: KnownPeer, _ state: FollowedPeer) async -> FollowedPeer {
    var state = state
    state.holdsLease = true
    do throws(SyncFailure) {
      repeat {
        try demandCurrent(peer)
        let report = try await puller.pull(from: peer, &state.progress, turn: turn(of: peer))
        if let report, report.entries > 0 { await signals.publish(.contactsChanged) }
        note(report, of: peer.name, &state)
        succeeded(peer.name, &state)
      } while await pause(state.progress.asksOn)
    } catch {
      failed(error, of: peer.name, &state)
    }
    return state
  }

  /// - Returns: whether the peer is to be asked on.
  private func pause(_ end: ContinuousClock.Instant?) async -> Bool {
    guard let end else { return false }
    return await Pause.until(end)
  }

  private func succeeded(_ peer: RelayName, _ state: inout FollowedPeer) {
    guard state.isFailing else { return }
    state.isFailing = false
    logger.notice("directory of peer can be read again", metadata: ["peer": "\(peer)"])
  }

  private func failed(_ error: SyncFailure, of peer: RelayName, _ state: inout FollowedPeer) {
    if case .displaced = error {
      state.holdsLease = false
      state.stopShowing()
    } else if state.holdsLease {
      state.show(peer)
    }
    guard error.isWorthALine, !state.isFailing, !Task.isCancelled else { return }
    state.isFailing = true
    logger.warning("directory of peer cannot be read", metadata: ["peer": "\(peer)", "reason": "\(error)"])
  }

  private func note(_ report: PullReport?, of peer: RelayName, _ state: inout FollowedPeer) {
    state.show(peer)
    guard let report else { return }
    if report.isWhole {
      logger.info("directory of peer read", metadata: ["peer": "\(peer)", "entries": "\(report.entries)"])
      state.isFull = state.isFull && report.refused > 0
    }
    guard report.refused > 0 else { return }
    refusedClaims.add(report.refused, of: peer)
    guard !state.isFull else { return }
    state.isFull = true
    logger.warning(
      "peer lists more contacts than federation.contacts-max lets it claim, the rest is not taken up",
      metadata: ["peer": "\(peer)", "max": "\(contactsMax)"])
  }

  private func turn(of peer: KnownPeer) -> DirectoryPuller.Turn {
    { () async throws(SyncFailure) in try await self.demandTurn(peer) }
  }

  /// - Throws: `.displaced` when another process holds the lease, or the peer is no longer as it was.
  private func demandTurn(_ peer: KnownPeer) async throws(SyncFailure) {
    try demandCurrent(peer)
    let holds = try await SyncFailure.storing { () async throws(StoreError) in
      try await lease.acquire(Self.leaseName(peer.name))
    }
    guard holds else { throw .displaced }
  }

  private func demandCurrent(_ peer: KnownPeer) throws(SyncFailure) {
    guard isCurrent(peer) else { throw .displaced }
  }

  /// Whether `peer` is to be followed as it was when the round began.
  private func isCurrent(_ peer: KnownPeer) -> Bool {
    guard let current = registry.current.byName[peer.name] else { return false }
    return current.isActive && current.isCopied == peer.isCopied && current.fingerprint == peer.fingerprint
  }

  private static func leaseName(_ peer: RelayName) -> String { "directory \(peer)" }
}

// MARK: - Between rounds

extension DirectorySync {
  /// - Returns: nil while a round is under way.
  private func begin(_ peer: RelayName) -> FollowedPeer? {
    states.withLock { states in
      let state = states[peer] ?? FollowedPeer(contactsMax: contactsMax)
      guard !state.isBusy else { return nil }
      states[peer, default: state].isBusy = true
      return state
    }
  }

  private func end(_ peer: RelayName, _ state: FollowedPeer) {
    states.withLock { $0[peer] = state }
  }

  /// Forgets who is no active peer any more.
  private func dropStates(except peers: [KnownPeer]) {
    let names = Set(peers.map(\.name))
    let gone = states.withLock { states in
      let gone = states.filter { !names.contains($0.key) && !$0.value.isBusy }
      for name in gone.keys { states[name] = nil }
      return gone
    }
    for var state in gone.values { state.stopShowing() }
  }

  private func releaseLeases() async {
    for name in states.withLock({ $0.filter(\.value.holdsLease).map(\.key) }) {
      do {
        try await lease.release(Self.leaseName(name))
      } catch {
        logger.info("a lease cannot be given up early, it ends by itself", metadata: ["reason": "\(error)"])
      }
    }
  }
}

/// The state of one peer between two rounds.
private struct FollowedPeer: Sendable {
  var progress: PullProgress
  var isBusy = false
  var holdsLease = false
  var isFailing = false
  /// Whether it was said that the peer lists more than it may.
  var isFull = false
  private var kept: Gauge?
  private var pushed: Gauge?

  init(contactsMax: Int) { progress = PullProgress(contactsMax: contactsMax) }

  /// Shows whether the peer keeps our questions, and how many contacts it has here, if that is known.
  mutating func show(_ peer: RelayName) {
    let pushed = pushed ?? RelayMetric.contacts.pushed.gauge(.peer(peer.text))
    pushed.record(progress.isPushed ? 1 : 0)
    self.pushed = pushed
    guard let count = progress.allowance.kept else { return }
    let kept = kept ?? RelayMetric.contacts.kept.gauge(.peer(peer.text))
    kept.record(count)
    self.kept = kept
  }

  /// Another process follows it now, or nobody needs to.
  mutating func stopShowing() {
    kept?.destroy()
    pushed?.destroy()
    (kept, pushed) = (nil, nil)
    progress.allowance = ContactAllowance(max: progress.allowance.max)
  }
}
