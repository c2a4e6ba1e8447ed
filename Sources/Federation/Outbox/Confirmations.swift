import Logging
import RelayCore
import Synchronization

/// Notes behind everyone's back what peers say of their accounts' devices, in the order in which they said it, whether of
/// what was just sent or of what had waited.
final class Confirmations: Sendable {
  private enum Word: Sendable {
    case confirmed([ConfirmedDevice], ConfirmationMemory.Key, at: Timestamp)
    case contradicted(ConfirmationMemory.Key)
  }

  private let store: any OutboxStore
  private let clock: WallClock
  private let logger: Logger
  private let memory = Mutex(ConfirmationMemory())
  private let words: AsyncStream<Word>
  private let telling: AsyncStream<Word>.Continuation

  /// What a few busy seconds bring while the store is slow; what comes on top is confirmed by the next message.
  private static let wordsMax = 4096

  init(store: any OutboxStore, clock: WallClock, logger: Logger) {
    self.store = store
    self.clock = clock
    self.logger = logger
    (words, telling) = AsyncStream.makeStream(bufferingPolicy: .bufferingOldest(Self.wordsMax))
  }

  /// The peer has answered `submission`: its devices are all that the destination has, or what it confirmed before is not
  /// so any more, or that stays as it was.
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

  /// Written only when it is news, or the last writing was an hour ago.
  private func confirmed(_ submission: Submission, _ key: ConfirmationMemory.Key, by peer: KnownPeer) {
    guard peer.peer.policy.holdsMessages, let devices = submission.confirmedDevices else { return }
    let news = memory.withLock { $0.confirmed(devices, of: key, at: .now) }
    guard let news else { return }
    if case .dropped = telling.yield(.confirmed(news, key, at: clock.now())) { memory.withLock { $0.forget(key) } }
  }

  private func write(_ word: Word) async {
    do throws(StoreError) {
      switch word {
      case .confirmed(let devices, let key, let now):
        try await store.confirmDevices(devices, of: key.account, at: key.relay, now: now)
      case .contradicted(let key): try await store.forgetConfirmedDevices(of: key.account, at: key.relay)
      }
    } catch {
      logger.debug("what a peer confirmed could not be noted", metadata: ["error": "\(error)"])
      if case .confirmed(_, let key, _) = word { memory.withLock { $0.forget(key) } }
    }
  }
}
