package import Logging
package import RelayCore
import RelayWork
import ServiceLifecycle
import Synchronization

/// The peers as this process knows them.
///
/// Follows the store by signal, by a poll each second, and at once when a peer is looked up that is not known. A
/// change made by any process is seen here within about a second even when signals are lost. While the store cannot
/// be read, what was known last stays.
package final class PeerRegistry: Service {
  /// Look-ups of unknown peers read the store at most this often, whoever asks.
  static let refreshInterval = Duration.milliseconds(100)
  static let pollInterval = Duration.seconds(1)

  private let store: any PeerStore
  private let signals: any SignalBus
  private let logger: Logger
  /// nil until the store was read for the first time.
  private let table = Mutex<PeerTable?>(nil)
  /// The stored peers that `table` was made of. Only the one reading at a time touches it.
  private let stored = Mutex<[Peer]?>(nil)
  private let refresher: PeerRefresher
  private let handlers = Mutex<[Handler]>([])
  private struct Handler: Sendable {
    /// Whether it is told too when nothing but conditions has changed.
    let caresForConditions: Bool
    let handle: @Sendable (PeerTable) -> Void
  }

  package init(store: any PeerStore, signals: any SignalBus, logger: Logger) {
    self.store = store
    self.signals = signals
    self.logger = logger
    refresher = PeerRefresher(interval: Self.refreshInterval)
  }

  /// All peers, ascending by name.
  package var peers: [KnownPeer] { current.byName.values.sorted { $0.name < $1.name } }

  var current: PeerTable { table.withLock { $0 } ?? PeerTable() }
  /// Whether the list is one that the store held, and not just empty because it could never be read.
  var hasBeenRead: Bool { table.withLock { $0 != nil } }

  /// The peer of that name, in whatever state.
  package func peer(named name: RelayName) async -> KnownPeer? {
    if let known = current.byName[name] { return known }
    await refresh()
    return current.byName[name]
  }

  /// Calls `handler` after each reading that found another list than the one before, in the order of the readings: it
  /// must not block. Handlers stay for the registry's life, so they hold nothing strongly that ends before it.
  /// - Parameter conditions: whether it is to be called too when no more has changed than who can be reached.
  func onChange(ofConditions conditions: Bool = true, _ handler: @escaping @Sendable (PeerTable) -> Void) {
    handlers.withLock { $0.append(Handler(caresForConditions: conditions, handle: handler)) }
  }

  /// Reads the store; callers at one time share one reading that began after they asked.
  package func refresh() async {
    await refresher.refresh { [self] in await load() }
  }

  /// Keeps the table current until shut down.
  package func run() async throws {
    let wakeUps = Nudge()
    signals.listen { event in
      switch event {
      case .signal(.peersChanged), .connected: wakeUps.wake()
      case .signal, .disconnected: break
      }
    }
    await refresh()
    await cancelWhenGracefulShutdown { [self] in
      await withTaskGroup(of: Void.self) { group in
        group.addTask {
          for await _ in wakeUps { await self.refresh() }
        }
        group.addTask { await self.poll() }
      }
    }
  }

  private func poll() async {
    var seen: Int64?
    for await _ in Periodic(every: Self.pollInterval) {
      do {
        let revision = try await store.peersRevision()
        if revision != seen { await refresh() }
        seen = revision
      } catch {
        // `load` reports a store that is away; the next round tries again.
        seen = nil
        await refresh()
      }
    }
  }

  private func load() async {
    do {
      let peers = try await store.peers()
      let fresh = PeerTable(peers)
      let former = stored.withLock { stored in
        defer { stored = peers }
        return stored
      }
      let unreadable = table.withLock { table in
        defer { table = fresh }
        return Set(fresh.unreadable).subtracting(table?.unreadable ?? [])
      }
      for name in unreadable {
        logger.error("a stored peer cannot be read and is ignored: remove it", metadata: ["peer": "\(name)"])
      }
      if former != peers {
        let isMore = former?.map(\.regardlessOfCondition) != peers.map(\.regardlessOfCondition)
        for handler in handlers.withLock({ $0 }) where isMore || handler.caresForConditions { handler.handle(fresh) }
      }
      if await refresher.succeeded() { logger.notice("the list of peers can be read again") }
    } catch {
      if await refresher.failed() {
        logger.error("the list of peers cannot be read, the last known one stays", metadata: ["error": "\(error)"])
      }
    }
  }
}

/// Lets many askers share one reading, and spaces the readings.
private actor PeerRefresher {
  private let interval: Duration
  private var inFlight: Task<Void, Never>?
  private var lastStart: ContinuousClock.Instant?
  private var isFailing = false

  init(interval: Duration) { self.interval = interval }

  /// Returns when a reading has ended that began after the call.
  func refresh(_ load: @escaping @Sendable () async -> Void) async {
    let asked = ContinuousClock.now
    while (lastStart.map { $0 < asked }) ?? true {
      if let inFlight {
        await inFlight.value
      } else {
        let task = Task { await self.read(load) }
        inFlight = task
        await task.value
      }
    }
  }

  private func read(_ load: @Sendable () async -> Void) async {
    if let lastStart {
      // Not cancelled by anyone: the task is its own.
      await Pause.until(lastStart + interval)
    }
    lastStart = .now
    await load()
    inFlight = nil
  }

  /// - Returns: whether this ends a row of failures.
  func succeeded() -> Bool {
    defer { isFailing = false }
    return isFailing
  }

  /// - Returns: whether this begins a row of failures.
  func failed() -> Bool {
    defer { isFailing = true }
    return !isFailing
  }
}
