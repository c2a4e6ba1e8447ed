package import Logging
package import RelayCore
import RelayWork
import ServiceLifecycle

/// Makes peers active again when the end of their suspension has come (`relay peer suspend --until`).
package struct SuspensionEnds: Service {
  private let store: any PeerStore & ContactClaimStore
  private let registry: PeerRegistry
  private let signals: any SignalBus
  private let clock: WallClock
  private let logger: Logger

  /// - Parameter registry: tells without a look into the store whether there is anything to do.
  package init(
    store: any PeerStore & ContactClaimStore, registry: PeerRegistry, signals: any SignalBus, clock: WallClock,
    logger: Logger
  ) {
    self.store = store
    self.registry = registry
    self.signals = signals
    self.clock = clock
    self.logger = logger
  }

  package func run() async throws {
    await cancelWhenGracefulShutdown {
      for await _ in Periodic(every: Self.interval) { await resumeDue() }
    }
  }

  func resumeDue() async {
    let now = clock.now()
    let isDue = registry.peers.contains { peer in
      !peer.isActive && peer.peer.suspension?.until.map { $0 <= now } ?? false
    }
    guard isDue else { return }
    do {
      // Another process may have been faster.
      let resumed = try await store.resumePeers(endedBy: now)
      guard !resumed.isEmpty else { return }
      await signals.publish(.peersChanged)
      for name in resumed {
        let passed = try await store.notePasses(of: name)
        logger.notice(
          "a peer is active again: its suspension has ended",
          metadata: ["peer": "\(name)", "contactsPassed": "\(passed)"])
      }
    } catch {
      logger.warning("a peer's suspension has ended, but the store fails", metadata: ["error": "\(error)"])
    }
  }

  private static let interval = Duration.seconds(1)
}
