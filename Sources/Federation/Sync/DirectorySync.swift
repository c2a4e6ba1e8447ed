package import Logging
package import RelayCore
import RelayHTTP
import ServiceLifecycle
import Synchronization

/// Keeps the contact tokens of peers current (reference 1.13.5).
///
/// Asks each active peer with the scope `directory` every few seconds whether its listing has changed, and reads all
/// pages when it has. Peers are asked side by side, one reading at a time each: a slow one delays nobody. Every process
/// may run it: merging the same page twice changes nothing.
package final class DirectorySync: Service {
  private let registry: PeerRegistry
  private let puller: DirectoryPuller
  private let interval: Duration
  private let logger: Logger
  /// Peers that are being asked.
  private let busy = Mutex<Set<RelayName>>([])
  private let failing = Mutex<Set<RelayName>>([])

  /// - Parameter contactsMax: a peer that lists more is not followed past that.
  package init(
    registry: PeerRegistry, transport: PeerTransport, directory: any DirectoryStore,
    interval: Duration = .seconds(5), contactsMax: Int = 10_000_000, logger: Logger
  ) {
    self.registry = registry
    self.interval = interval
    self.logger = logger
    puller = DirectoryPuller(transport: transport, directory: directory, contactsMax: contactsMax)
  }

  package func run() async throws {
    await cancelWhenGracefulShutdown { [self] in
      await withDiscardingTaskGroup { group in
        while !Task.isCancelled {
          for peer in registry.peers where isFollowed(peer) {
            guard busy.withLock({ $0.insert(peer.name).inserted }) else { continue }
            group.addTask {
              await self.follow(peer)
              self.busy.withLock { _ = $0.remove(peer.name) }
            }
          }
          // Only cancellation throws here, and the loop's condition sees it.
          try? await Task.sleep(for: interval)
        }
      }
    }
  }

  private func isFollowed(_ peer: KnownPeer) -> Bool { peer.isActive && peer.peer.scopes.contains(.directory) }

  private func follow(_ peer: KnownPeer) async {
    do throws(DirectoryPuller.Failure) {
      let seen = try await puller.pull(from: peer)
      if failing.withLock({ $0.remove(peer.name) }) != nil {
        logger.notice("directory of peer can be read again", metadata: ["peer": "\(peer.name)"])
      }
      if let seen { logger.info("directory of peer read", metadata: ["peer": "\(peer.name)", "entries": "\(seen)"]) }
    } catch {
      guard !Task.isCancelled, failing.withLock({ $0.insert(peer.name).inserted }) else { return }
      logger.warning("directory of peer cannot be read", metadata: ["peer": "\(peer.name)", "reason": "\(error)"])
    }
  }
}
