import Logging
import RelayCore
import Synchronization

/// Takes up what ids of peers' attachments begin with, as they tell it with what they can do.
///
/// A mark is the first peer's that told it, and never a peer's that is this relay's own: a second one that tells it is
/// left without, which is logged once.
final class AttachmentMarks: Sendable {
  private let own: AttachmentMark?
  private let registry: PeerRegistry
  private let store: any PeerStore
  private let signals: any SignalBus
  private let logger: Logger
  /// The mark that each peer was last denied.
  private let denied = Mutex<[RelayName: AttachmentMark]>([:])

  init(
    own: AttachmentMark?, registry: PeerRegistry, store: any PeerStore, signals: any SignalBus, logger: Logger
  ) {
    self.own = own
    self.registry = registry
    self.store = store
    self.signals = signals
    self.logger = logger
  }

  /// - Parameter mark: nil from a relay that does not mark its ids.
  func told(_ mark: AttachmentMark?, by peer: RelayName) async {
    guard let mark else { return }
    let holder = registry.current.byMark[mark]
    guard mark != own, holder == nil || holder == peer else { return deny(mark, to: peer) }
    guard holder == nil else { return }
    do throws(StoreError) {
      // false: another process was first, or another peer; the next answer shows which.
      guard try await store.noteAttachmentMark(mark, of: peer) else { return }
    } catch {
      logger.debug(
        "a peer's mark of attachments is not taken up yet", metadata: ["peer": "\(peer)", "error": "\(error)"])
      return
    }
    await signals.publish(.peersChanged)
    await registry.refresh()
  }

  private func deny(_ mark: AttachmentMark, to peer: RelayName) {
    guard denied.withLock({ $0.updateValue(mark, forKey: peer) != mark }) else { return }
    logger.warning(
      """
      peer marks its attachments as another relay does: clients that name no relay do not find them, until its operator sets \
      attachments.mark
      """,
      metadata: ["peer": "\(peer)", "mark": "\(mark.value)"])
  }
}
