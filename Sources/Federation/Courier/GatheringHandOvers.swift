import RelayCore
import Synchronization

/// The hand-overs to one peer that takes batches: runs what `HandOverQueue` decides.
///
/// Batches travel in a task of their own, so that nobody who gives up waiting takes others along.
final class GatheringHandOvers: Sendable {
  typealias Answer = Result<HandOverAnswer, PeerFailure>
  /// - Returns: one for each, in order.
  typealias Send = @Sendable ([Item]) async -> [Answer]

  struct Item: Sendable {
    let handOver: HandOver
    let deadline: ContinuousClock.Instant
  }

  private struct State {
    var queue: HandOverQueue
    var items: [HandOverQueue.Ticket: Item] = [:]
    var continuations: [HandOverQueue.Ticket: CheckedContinuation<Answer, Never>] = [:]
    var nextTicket: HandOverQueue.Ticket = 0
  }

  private let state: Mutex<State>

  init(bounds: HandOverQueue.Bounds) { state = Mutex(State(queue: HandOverQueue(bounds: bounds))) }

  var waitingCount: Int { state.withLock { $0.queue.waitingCount } }

  /// - Parameter send: what sends a batch; the newest one counts, as it knows the peer best.
  func send(
    _ handOver: HandOver, until deadline: ContinuousClock.Instant, by send: @escaping Send
  ) async throws(PeerFailure) -> HandOverAnswer {
    let ticket = state.withLock { state in
      defer { state.nextTicket += 1 }
      return state.nextTicket
    }
    let answer = await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        submit(Item(handOver: handOver, deadline: deadline), as: ticket, for: continuation, by: send)
      }
    } onCancel: {
      abandon(ticket)
    }
    return try answer.get()
  }

  private func submit(
    _ item: Item, as ticket: HandOverQueue.Ticket, for continuation: CheckedContinuation<Answer, Never>,
    by send: @escaping Send
  ) {
    let action = state.withLock { state -> HandOverQueue.Action? in
      // Cancelled before it came here: then `abandon` has found nothing.
      if Task.isCancelled { return nil }
      let action = state.queue.submitted(ticket, bytes: item.handOver.wireBytesMax)
      if action != .refuse {
        state.items[ticket] = item
        state.continuations[ticket] = continuation
      }
      return action
    }
    switch action {
    case nil: continuation.resume(returning: .failure(.cancelled))
    case .refuse: continuation.resume(returning: .failure(.busy))
    case .wait: return
    case .send(let tickets): Task { await run(tickets, by: send) }
    }
  }

  /// The caller gives up: what waits is taken back, what is under way goes on without it.
  private func abandon(_ ticket: HandOverQueue.Ticket) {
    let continuation = state.withLock { state in
      if state.queue.abandoned(ticket) { state.items[ticket] = nil }
      return state.continuations.removeValue(forKey: ticket)
    }
    continuation?.resume(returning: .failure(.cancelled))
  }

  /// Sends batch after batch until nothing waits.
  private func run(_ first: [HandOverQueue.Ticket], by send: Send) async {
    var tickets = first
    while true {
      let items = state.withLock { state in tickets.compactMap { state.items.removeValue(forKey: $0) } }
      let answers = await send(items)
      let (waiting, next) = state.withLock { state in
        (tickets.map { state.continuations.removeValue(forKey: $0) }, state.queue.answered())
      }
      for (continuation, answer) in zip(waiting, answers) { continuation?.resume(returning: answer) }
      guard case .send(let more) = next else { return }
      tickets = more
    }
  }
}
