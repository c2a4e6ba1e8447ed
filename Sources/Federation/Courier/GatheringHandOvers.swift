import RelayCore
import Synchronization

/// The hand-overs to one peer that takes batches: runs what `HandOverQueue` decides.
///
/// Batches travel in a task of their own, so that nobody who gives up waiting takes others along. Each hand-over fails at
/// its own deadline; what is under way goes on without it, and has all the time that a request may take.
final class GatheringHandOvers: Sendable {
  typealias Answer = Result<HandOverAnswer, PeerFailure>
  /// - Returns: one for each, in order.
  typealias Send = @Sendable ([HandOver]) async -> [Answer]

  private struct Waiter {
    let continuation: CheckedContinuation<Answer, Never>
    let deadline: ContinuousClock.Instant
  }
  private struct State {
    var queue: HandOverQueue
    var handOvers: [HandOverQueue.Ticket: HandOver] = [:]
    var waiters: [HandOverQueue.Ticket: Waiter] = [:]
    var nextTicket: HandOverQueue.Ticket = 0
    /// Whether a task looks after the deadlines.
    var isWatched = false

    /// - Returns: who has waited for it.
    mutating func abandon(_ ticket: HandOverQueue.Ticket) -> Waiter? {
      if queue.abandoned(ticket) { handOvers[ticket] = nil }
      return waiters.removeValue(forKey: ticket)
    }
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
        submit(handOver, as: ticket, for: Waiter(continuation: continuation, deadline: deadline), by: send)
      }
    } onCancel: {
      abandon(ticket)
    }
    return try answer.get()
  }

  private func submit(
    _ handOver: HandOver, as ticket: HandOverQueue.Ticket, for waiter: Waiter, by send: @escaping Send
  ) {
    let (action, isToWatch) = state.withLock { state -> (HandOverQueue.Action?, Bool) in
      // Cancelled before it came here: then `abandon` has found nothing.
      if Task.isCancelled { return (nil, false) }
      let action = state.queue.submitted(ticket, bytes: handOver.wireBytesMax)
      if action == .refuse { return (action, false) }
      state.handOvers[ticket] = handOver
      state.waiters[ticket] = waiter
      defer { state.isWatched = true }
      return (action, !state.isWatched)
    }
    if isToWatch { Task { await watch() } }
    switch action {
    case nil: waiter.continuation.resume(returning: .failure(.cancelled))
    case .refuse: waiter.continuation.resume(returning: .failure(.busy))
    case .wait: return
    case .send(let tickets): Task { await run(tickets, by: send) }
    }
  }

  /// The caller gives up: what waits is taken back, what is under way goes on without it.
  private func abandon(_ ticket: HandOverQueue.Ticket) {
    let waiter = state.withLock { $0.abandon(ticket) }
    waiter?.continuation.resume(returning: .failure(.cancelled))
  }

  /// Has whoever has waited for long enough give up, until nobody waits. Sleeps until the next deadline that there was
  /// at the last look: what comes later has a later one.
  private func watch() async {
    while true {
      let now = ContinuousClock.now
      let (late, next) = state.withLock { state in
        // Ascending: the queue is searched from its beginning.
        let late = state.waiters.filter { $0.value.deadline <= now }.keys.sorted().compactMap { state.abandon($0) }
        let next = state.waiters.values.map(\.deadline).min()
        state.isWatched = next != nil
        return (late, next)
      }
      for waiter in late { waiter.continuation.resume(returning: .failure(.timedOut)) }
      guard let next else { return }
      // Nobody cancels this task.
      try? await Task.sleep(until: next, clock: .continuous)
    }
  }

  /// Sends batch after batch until nothing waits.
  private func run(_ first: [HandOverQueue.Ticket], by send: Send) async {
    var tickets = first
    while true {
      let handOvers = state.withLock { state in tickets.compactMap { state.handOvers.removeValue(forKey: $0) } }
      let answers = await send(handOvers)
      let (waiting, next) = state.withLock { state in
        (tickets.map { state.waiters.removeValue(forKey: $0) }, state.queue.answered())
      }
      for (waiter, answer) in zip(waiting, answers) { waiter?.continuation.resume(returning: answer) }
      guard case .send(let more) = next else { return }
      tickets = more
    }
  }
}
