import Logging
import RelayCore
import Synchronization

/// Writes down in the background what peers say of their accounts' devices, in the order in which they said it. The
/// answers may be about messages just sent or about messages that had waited.
///
/// All peers are covered, so that `hold` helps even if it is switched on when the peer is already away. While `hold`
/// is off, a conversation is written down twice a day, so that one of the last 24 hours is always known. Later
/// confirmations are written when it is switched on.
final class Confirmations: Sendable {
  private enum Word: Sendable {
    case confirmed(ConfirmationMemory.Word)
    case contradicted(ConfirmationMemory.Key)
    /// Messages for the peer are held from now on.
    case holding(RelayName)
  }

  private let store: any OutboxStore
  private let clock: WallClock
  private let logger: Logger
  private let memory = Mutex(ConfirmationMemory())
  /// Peers for which messages are held.
  private let holding = Mutex<Set<RelayName>>([])
  private let words: AsyncStream<Word>
  private let telling: AsyncStream<Word>.Continuation

  /// The confirmations of a few busy seconds while the store is slow. Above this number they are dropped; the next
  /// message confirms again.
  private static let wordsMax = 4096
  /// How often a conversation is written down where messages are held, and where they are not.
  private static let intervalHolding = Duration.seconds(3600)
  private static let interval = Duration.seconds(43_200)

  init(store: any OutboxStore, clock: WallClock, logger: Logger) {
    self.store = store
    self.clock = clock
    self.logger = logger
    (words, telling) = AsyncStream.makeStream(bufferingPolicy: .bufferingOldest(Self.wordsMax))
  }

  /// The peer has answered `submission`: its devices are all that the destination has, or what it confirmed before is
  /// not so any more, or that stays as it was.
  func answered(_ submission: Submission, with verdict: HandOverAnswer.Verdict, by peer: KnownPeer) async {
    let key = ConfirmationMemory.Key(account: submission.destination, relay: peer.name)
    switch verdict {
    case .accepted: confirmed(submission, key, by: peer)
    case .unknown, .otherDevices:
      memory.withLock { $0.forget(key) }
      // A full queue makes the caller wait.
      if case .dropped = telling.yield(.contradicted(key)) { await write(.contradicted(key)) }
    case .refused, .later, .unserved: return
    }
  }

  /// Writes until cancelled.
  func run() async {
    for await word in words { await write(word) }
  }

  /// The set of peers for which messages are held may have changed.
  func peersChanged(_ peers: some Sequence<KnownPeer>) {
    let now = Set(peers.filter(\.peer.policy.holdsMessages).map(\.name))
    let begun = holding.withLock { holding in
      defer { holding = now }
      return now.subtracting(holding)
    }
    for relay in begun {
      // A full queue: at the next change it is news again.
      if case .dropped = telling.yield(.holding(relay)) { holding.withLock { _ = $0.remove(relay) } }
    }
  }

  /// Written only when it is news, or the last writing was a while ago.
  private func confirmed(_ submission: Submission, _ key: ConfirmationMemory.Key, by peer: KnownPeer) {
    guard let devices = submission.confirmedDevices else { return }
    let interval = peer.peer.policy.holdsMessages ? Self.intervalHolding : Self.interval
    let now = clock.now()
    guard let word = memory.withLock({ $0.confirmed(devices, of: key, at: now, writingEvery: interval) }) else {
      return
    }
    if case .dropped = telling.yield(.confirmed(word)) { memory.withLock { $0.forget(key) } }
  }

  private func write(_ word: Word) async {
    switch word {
    case .confirmed(let word): await write(word)
    case .contradicted(let key):
      do throws(StoreError) {
        try await store.forgetConfirmedDevices(of: key.account, at: key.relay)
      } catch {
        report(error)
      }
    case .holding(let relay):
      for word in memory.withLock({ $0.takeUnwritten(of: relay) }) { await write(word) }
    }
  }

  private func write(_ word: ConfirmationMemory.Word) async {
    do throws(StoreError) {
      try await store.confirmDevices(
        word.devices, of: word.key.account, at: word.key.relay, now: word.confirmed)
    } catch {
      report(error)
      memory.withLock { $0.forget(word.key) }
    }
  }

  private func report(_ error: StoreError) {
    logger.debug("what a peer confirmed could not be noted", metadata: ["error": "\(error)"])
  }
}
