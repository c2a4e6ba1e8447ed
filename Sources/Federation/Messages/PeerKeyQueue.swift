import RelayCore
import RelayWork
import Synchronization

/// The draws at one peer that takes many in a request: one that finds none under way goes at once, and those that come
/// meanwhile travel together in the next (docs/federation-wire.md, "Draws together").
///
/// Batches run in tasks of their own: a caller that gives up takes no other along. Its draw is taken back if it still
/// waits. If it is under way, its keys are gone, as those of any answer that nobody hears.
final class PeerKeyQueue: Sendable {
  typealias Outcome = Result<KeyDrawAnswer, PeerFailure>

  private final class Member: Sendable {
    let draw: KeyDraw
    let waiter = Waiter<Outcome>()
    init(_ draw: KeyDraw) { self.draw = draw }
  }

  private let queue: Mutex<BatchQueue<Member>>
  private let send: @Sendable ([KeyDraw]) async -> [Outcome]

  /// - Parameter send: is given 1 to `KeyBatchCodec.drawsMax` draws, and returns an outcome for each, in their order;
  ///   never called twice at once.
  init(waitingMax: Int, send: @escaping @Sendable ([KeyDraw]) async -> [Outcome]) {
    queue = Mutex(
      BatchQueue(bounds: .init(batch: .init(items: KeyBatchCodec.drawsMax), waiting: .init(items: waitingMax))) { _ in
        .init(items: 1)
      })
    self.send = send
  }

  /// How many wait for the batch that is under way.
  var waitingCount: Int { queue.withLock { $0.waiting.items } }

  /// - Throws: `.busy` when too many wait; `.timedOut` at the deadline; `.cancelled`; why the peer gave no answer.
  func answer(to draw: KeyDraw, until deadline: ContinuousClock.Instant) async throws(PeerFailure) -> KeyDrawAnswer {
    if Task.isCancelled { throw .cancelled }
    let member = Member(draw)
    switch queue.withLock({ $0.admit(member) }) {
    case .full: throw .busy
    case .waits: break
    case .isFirst: Task.ofNobody { await self.sendUntilEmpty() }
    }
    if let outcome = await member.waiter.value(until: deadline) { return try outcome.get() }
    _ = queue.withLock { $0.remove { $0 === member } }
    throw Task.isCancelled ? PeerFailure.cancelled : .timedOut
  }

  private func sendUntilEmpty() async {
    while let batch = queue.withLock({ $0.next() }) {
      let outcomes = await send(batch.map(\.draw))
      for (member, outcome) in zip(batch, outcomes) { member.waiter.end(with: outcome) }
    }
  }
}
