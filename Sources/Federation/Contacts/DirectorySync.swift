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
/// Every few seconds, asks each active peer whose contacts are copied for the changes in its listing. Peers are asked
/// side by side, with one reading at a time each: a slow peer delays no other. One process of the operator follows a
/// peer: the one that holds the lease `directory NAME`. If that process ends or dies, another takes over. If a peer
/// is not to be copied any more, its copied contacts are removed.
package final class DirectorySync: Service {
  private let registry: PeerRegistry
  private let puller: DirectoryPuller
  private let interval: Duration
  private let lease: Lease<StoreError>
  private let contactsMax: Int
  private let logger: Logger
  private let states = Mutex<[RelayName: FollowedPeer]>([:])
  private let refusedClaims = PeerCounters(RelayMetric.contacts.claimsRefused)

  /// - Parameters:
  ///   - contactsMax: contacts that one peer may claim; what it lists beyond is not taken up.
  ///   - holder: a random number of this process.
  package init(
    registry: PeerRegistry, transport: PeerTransport, directory: any DirectoryStore & LeaseStore, clock: WallClock,
    interval: Duration = .seconds(2), contactsMax: Int = 5_000_000, holder: Int64 = .random(in: 1 ... .max),
    logger: Logger
  ) {
    self.registry = registry
    self.interval = interval
    self.contactsMax = contactsMax
    self.logger = logger
    // Three rounds, but not less than a busy store takes, nor more than another process should wait.
    lease = directory.lease(holder: holder, lasting: min(max(interval * 3, .seconds(1)), .seconds(10)))
    puller = DirectoryPuller(reader: ListingReader(transport: transport), directory: directory, clock: clock)
  }

  package func run() async throws {
    await cancelWhenGracefulShutdown { [self] in
      await withDiscardingTaskGroup { group in
        for await _ in Periodic(every: interval) {
          let peers = registry.peers.filter(\.isActive)
          dropStates(except: peers)
          for peer in peers {
            guard let state = begin(peer.name) else { continue }
            group.addTask { self.end(peer.name, await self.round(peer, state)) }
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
    let turn: DirectoryPuller.Turn = { () async throws(SyncFailure) in try await self.demandTurn(peer) }
    do throws(SyncFailure) {
      if peer.isCopied {
        try demandCurrent(peer)
        let progress = state.progress
        let pulled = try await SyncFailure.storing { () async throws(StoreError) in
          try await lease.keep(Self.leaseName(peer.name)) { await self.pull(from: peer, progress, turn: turn) }
        }
        guard let pulled else { throw .displaced }
        state.holdsLease = true
        state.progress = pulled.progress
        note(try pulled.result.get(), of: peer.name, &state)
      } else if try await puller.forget(peer, turn: turn) {
        logger.notice("contacts of peer removed, they are not to be copied", metadata: ["peer": "\(peer.name)"])
        state.stopCounting()
      }
      if state.isFailing {
        state.isFailing = false
        logger.notice("directory of peer can be read again", metadata: ["peer": "\(peer.name)"])
      }
    } catch {
      if case .displaced = error {
        state.holdsLease = false
        state.stopCounting()
      }
      guard error.isWorthALine, !state.isFailing, !Task.isCancelled else { return state }
      state.isFailing = true
      logger.warning("directory of peer cannot be read", metadata: ["peer": "\(peer.name)", "reason": "\(error)"])
    }
    return state
  }

  /// Pulls with a copy of what is remembered of the peer: the lease is renewed beside it.
  private func pull(
    from peer: KnownPeer, _ progress: PullProgress, turn: DirectoryPuller.Turn
  ) async -> (progress: PullProgress, result: Result<PullReport?, SyncFailure>) {
    var progress = progress
    do throws(SyncFailure) {
      let report = try await puller.pull(from: peer, &progress, turn: turn)
      return (progress, .success(report))
    } catch {
      return (progress, .failure(error))
    }
  }

  private func note(_ report: PullReport?, of peer: RelayName, _ state: inout FollowedPeer) {
    state.count(of: peer)
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

  /// - Throws: `.displaced` when another process holds the lease, or the peer is no longer as it was.
  private func demandTurn(_ peer: KnownPeer) async throws(SyncFailure) {
    try demandCurrent(peer)
    let holds = try await SyncFailure.storing { () async throws(StoreError) in
      try await lease.acquire(Self.leaseName(peer.name))
    }
    guard holds else { throw .displaced }
  }

  private func demandCurrent(_ peer: KnownPeer) throws(SyncFailure) {
    guard let current = registry.current.byName[peer.name], current.isActive, current.isCopied == peer.isCopied,
      current.fingerprint == peer.fingerprint
    else { throw .displaced }
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
    for var state in gone.values { state.stopCounting() }
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
  private var gauge: Gauge?

  init(contactsMax: Int) { progress = PullProgress(contactsMax: contactsMax) }

  /// Shows how many contacts the peer has here.
  mutating func count(of peer: RelayName) {
    guard let kept = progress.allowance.kept else { return }
    let gauge = gauge ?? RelayMetric.contacts.kept.gauge(.peer(peer.text))
    gauge.record(kept)
    self.gauge = gauge
  }

  /// Another process counts now, or nobody needs to.
  mutating func stopCounting() {
    gauge?.destroy()
    gauge = nil
    progress.allowance = ContactAllowance(max: progress.allowance.max)
  }
}
