import RelayCore
import RelayWork
import Synchronization

/// Performs what one peer's `PeerQueue` decides: makes the requests, has messages held, tells the callers, and watches
/// the time. Nothing is decided here.
///
/// Steps run in tasks of their own, so that nobody who gives up waiting takes others along. A step that follows from
/// another one goes on in its task.
final class PeerQueueDriver: Sendable {
  typealias Queue = PeerQueue<Waiter<Result<HandOverOutcome, PeerFailure>>>

  private struct State {
    var queue: Queue
    /// As it was known last.
    var peer: KnownPeer
  }

  private let state: Mutex<State>
  private let requests: HandOverRequests
  private let outbox: Outbox?

  init(to peer: KnownPeer, _ requests: HandOverRequests, outbox: Outbox?) {
    let limits = requests.transport.limits
    state = Mutex(
      State(
        queue: Queue(
          waitingMax: .init(items: limits.waitingMax, bytes: limits.waitingBytesMax), patience: limits.patience,
          at: .now),
        peer: peer))
    self.requests = requests
    self.outbox = outbox
  }

  var waitingCount: Int { state.withLock { $0.queue.waitingSize.items } }
  var isKeptWaiting: Bool { state.withLock { $0.queue.isKeptWaiting } }
  private var peer: KnownPeer { state.withLock { $0.peer } }

  /// - Parameters: as of `PeerQueue.submitted`.
  func send(
    _ handOver: HandOver, to peer: KnownPeer, holdsMessages: Bool, isAlone: Bool,
    until deadline: ContinuousClock.Instant
  ) async throws(PeerFailure) -> HandOverOutcome {
    if Task.isCancelled { throw .cancelled }
    let waiter = Waiter<Result<HandOverOutcome, PeerFailure>>()
    let (ticket, actions) = state.withLock { state in
      state.peer = peer
      return state.queue.submitted(
        handOver, by: waiter, holdsMessages: holdsMessages, isAlone: isAlone, until: deadline, at: .now)
    }
    begin(follow(actions))
    if let outcome = await waiter.value() { return try outcome.get() }
    state.withLock { $0.queue.cancelled(ticket) }
    throw .cancelled
  }

  private func begin(_ step: Queue.Step?) {
    guard let step else { return }
    Task.ofNobody { await self.run(step) }
  }

  private func run(_ first: Queue.Step) async {
    var next: Queue.Step? = first
    while let step = next { next = await perform(step) }
  }

  /// - Returns: a step that follows.
  private func perform(_ step: Queue.Step) async -> Queue.Step? {
    switch step {
    case .lookUp(let batch, let destinations):
      let held = await lookUp(destinations)
      return tell { $0.lookedUp(batch, held, at: .now) }
    case .send(let batch, let handOvers, let terms):
      let answers = await requests.send(
        handOvers[...], to: peer, terms, until: .now + requests.transport.limits.requestTimeout)
      let next = tell { $0.answered(batch, answers.each, isNoted: answers.noted == nil, at: .now) }
      if let noted = answers.noted {
        Task {
          await noted.value
          begin(tell { $0.noted(batch, at: .now) })
        }
      }
      return next
    case .hold(let batch, let parcels, let isUnderWay):
      let peer = peer
      let problems = await outbox?.hold(parcels.compactMap { $0.handOver.outgoing(to: peer.name) }, for: peer)
      return tell { $0.held(batch, parcels, isUnderWay: isUnderWay, problems ?? [], at: .now) }
    }
  }

  private func lookUp(_ destinations: [AccountNumber]) async -> Result<Set<AccountNumber>, Problem> {
    do throws(Problem) {
      return .success(try await outbox?.mustWait(destinations, at: peer) ?? [])
    } catch {
      return .failure(error)
    }
  }

  private func tell(_ event: (inout Queue) -> Queue.Actions) -> Queue.Step? {
    follow(state.withLock { event(&$0.queue) })
  }

  /// - Returns: a step for its caller to begin; others have begun.
  private func follow(_ actions: Queue.Actions) -> Queue.Step? {
    for (waiter, outcome) in actions.outcomes { waiter.end(with: outcome) }
    if let outbox, !actions.notes.isEmpty {
      let peer = peer
      Task { for note in actions.notes { await outbox.answered(note.submission, with: note.verdict, by: peer) } }
    }
    if let time = actions.timer {
      Task.ofNobody {
        await Pause.until(time)
        self.begin(self.tell { $0.timeCame(at: max(.now, time)) })
      }
    }
    for step in actions.steps.dropFirst() { begin(step) }
    return actions.steps.first
  }
}

extension HandOver {
  /// nil for a receipt.
  fileprivate func outgoing(to relay: RelayName) -> PeerSubmission? {
    guard case .message(let submission, let source) = self else { return nil }
    return PeerSubmission(relay: relay, source: source, submission: submission)
  }
}
