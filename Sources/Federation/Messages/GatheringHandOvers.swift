import RelayCore
import RelayWork
import Synchronization

/// The hand-overs to one peer that takes batches: one alone while nothing is under way, else together once that is
/// answered. One batch at a time, so that what a sender hands over later never overtakes.
///
/// Batches travel in a task of their own, so that nobody who gives up waiting takes others along. Each hand-over fails
/// at its own deadline; what is under way goes on without it, and has all the time that a request may take.
///
/// Messages that may be held are held by the batch, before the next one begins: whatever becomes of them, those that
/// came later stay behind them.
final class GatheringHandOvers: Sendable {
  typealias Outcome = Result<HandOverOutcome, PeerFailure>
  /// - Returns: one answer for each, in order.
  typealias Send = @Sendable ([HandOver], BatchTerms) async -> HandOverAnswers

  typealias Ticket = UInt64

  /// The place of a parcel in the queue.
  struct Place: Sendable {
    let ticket: Ticket
    /// The size of the hand-over in a batch.
    let bytes: Int
  }

  private enum Standing {
    case isCancelled
    case isRefused
    case waits
    /// It goes at once.
    case goes([Place])
  }

  private struct Parcel {
    let ticket: Ticket
    let handOver: HandOver
    /// nil where nothing is held.
    let place: HoldingPlace?

    var mayBeHeld: Bool { place != nil && handOver.isMessage }
    var outgoing: OutgoingMessage? {
      guard let place, case .message(let submission, let source) = handOver else { return nil }
      return OutgoingMessage(relay: place.peer.name, source: source, submission: submission)
    }
  }
  private struct Waiter {
    let continuation: CheckedContinuation<Outcome, Never>
    let deadline: ContinuousClock.Instant
    /// Why it is not held, though the peer has not answered in time either: it waits on.
    var problem: Problem?

    /// At the deadline.
    func giveUp() { continuation.resume(returning: problem.map { .success(.held($0)) } ?? .failure(.timedOut)) }
  }
  private struct State {
    var queue: BatchQueue<Place>
    var parcels: [Ticket: Parcel] = [:]
    var waiters: [Ticket: Waiter] = [:]
    var nextTicket: Ticket = 0
    /// Whether a task looks after the deadlines.
    var isWatched = false

    /// - Returns: who has waited for it.
    mutating func abandon(_ ticket: Ticket) -> Waiter? {
      if queue.remove(where: { $0.ticket == ticket }) { parcels[ticket] = nil }
      return waiters.removeValue(forKey: ticket)
    }
  }

  private let state: Mutex<State>
  private let patience: PeerPatience

  /// - Parameter waiting: hand-overs that may wait behind the batch under way.
  init(waiting: BatchQueue<Place>.Size, patience: PeerPatience) {
    let batch = BatchQueue<Place>.Size(items: WireLimits.handOversPerBatchMax, bytes: WireLimits.batchBytesMax)
    state = Mutex(
      State(
        queue: BatchQueue(bounds: .init(batch: batch, waiting: waiting)) { .init(items: 1, bytes: $0.bytes) }))
    self.patience = patience
  }

  var waitingCount: Int { state.withLock { $0.queue.waiting.items } }

  /// - Parameters:
  ///   - place: where messages are held that the peer does not take now; nil for nowhere.
  ///   - send: what sends a batch.
  func send(
    _ handOver: HandOver, until deadline: ContinuousClock.Instant, or place: HoldingPlace? = nil,
    by send: @escaping Send
  ) async throws(PeerFailure) -> HandOverOutcome {
    let ticket = state.withLock { state in
      defer { state.nextTicket += 1 }
      return state.nextTicket
    }
    let parcel = Parcel(ticket: ticket, handOver: handOver, place: place)
    let outcome = await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        submit(parcel, for: Waiter(continuation: continuation, deadline: deadline), by: send)
      }
    } onCancel: {
      abandon(ticket)
    }
    return try outcome.get()
  }

  private func submit(_ parcel: Parcel, for waiter: Waiter, by send: @escaping Send) {
    let (standing, isToWatch) = state.withLock { state -> (Standing, Bool) in
      // Cancelled before it came here: then `abandon` has found nothing.
      if Task.isCancelled { return (.isCancelled, false) }
      let admission = state.queue.admit(Place(ticket: parcel.ticket, bytes: parcel.handOver.wireBytesMax))
      if admission == .full { return (.isRefused, false) }
      state.parcels[parcel.ticket] = parcel
      state.waiters[parcel.ticket] = waiter
      defer { state.isWatched = true }
      return (admission == .isFirst ? .goes(state.queue.next() ?? []) : .waits, !state.isWatched)
    }
    if isToWatch { Task.ofNobody { await self.watch() } }
    switch standing {
    case .isCancelled: waiter.continuation.resume(returning: .failure(.cancelled))
    case .isRefused: waiter.continuation.resume(returning: .failure(.busy))
    case .waits: return
    case .goes(let places): Task.ofNobody { await self.run(places, by: send) }
    }
  }

  /// The caller gives up: what waits is taken back, what is under way goes on without it.
  private func abandon(_ ticket: Ticket) {
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
      for waiter in late { waiter.giveUp() }
      guard let next else { return }
      await Pause.until(next)
    }
  }

  /// Sends batch after batch until nothing waits.
  private func run(_ first: [Place], by send: @escaping Send) async {
    var places = first
    while true {
      let parcels = state.withLock { state in places.compactMap { state.parcels.removeValue(forKey: $0.ticket) } }
      if let place = parcels.lazy.compactMap(\.place).last {
        await handOver(parcels, by: send, or: place)
      } else {
        settle(parcels, await send(parcels.map(\.handOver), .none))
      }
      guard let more = state.withLock({ $0.queue.next() }) else { return }
      places = more
    }
  }

  private func settle(_ parcels: [Parcel], _ answers: HandOverAnswers) {
    settle(zip(parcels, answers.each).map { ($0, $1) }, after: answers.noted)
  }

  /// Answers the callers as soon as the store has the note. The next batch begins meanwhile.
  private func settle(
    _ answered: [(Parcel, Result<HandOverAnswer, PeerFailure>)], after noted: Task<Void, Never>?
  ) {
    Task {
      await noted?.value
      for (parcel, answer) in answered { settle(parcel, answer.map { .answered($0) }) }
    }
  }

  private func settle(_ parcel: Parcel, _ outcome: Outcome) {
    // A waiter that has given up is gone.
    let waiter = state.withLock { $0.waiters.removeValue(forKey: parcel.ticket) }
    waiter?.continuation.resume(returning: outcome)
  }
}

// MARK: - Messages that may be held

extension GatheringHandOvers {
  /// On return each of `parcels` is the peer's, is held, or was refused, but for those that are not held and that the
  /// peer leaves without an answer for long: they wait on.
  private func handOver(_ parcels: [Parcel], by send: @escaping Send, or place: HoldingPlace) async {
    if patience.isExhausted {
      for parcel in parcels where !parcel.mayBeHeld { settle(parcel, .failure(.timedOut)) }
      return await hold(parcels.filter(\.mayBeHeld), in: place)
    }
    let destinations = Set(parcels.filter(\.mayBeHeld).map(\.handOver.destination))
    let waiting: Set<AccountNumber>
    do throws(Problem) {
      waiting = try await place.outbox.mustWait(Array(destinations), at: place.peer)
    } catch {
      for parcel in parcels where parcel.mayBeHeld { settle(parcel, .success(.held(error))) }
      return await sendPatiently(parcels.filter { !$0.mayBeHeld }, by: send, or: place)
    }
    func mustWait(_ parcel: Parcel) -> Bool { parcel.mayBeHeld && waiting.contains(parcel.handOver.destination) }
    let (behind, others) = (parcels.filter(mustWait), parcels.filter { !mustWait($0) })
    // They have no destination in common.
    async let holding: Void = hold(behind, in: place)
    await sendPatiently(others, by: send, or: place)
    await holding
  }

  /// A message that the peer leaves without an answer beyond our patience may have been taken already. If it is
  /// handed over again, the peer knows it by its fingerprint. Hand-overs that cannot be held wait for the answer, as
  /// receipts do.
  private func sendPatiently(_ parcels: [Parcel], by send: @escaping Send, or place: HoldingPlace) async {
    guard !parcels.isEmpty else { return }
    let request = Task { await send(parcels.map(\.handOver), .ordered) }
    guard let answers = await patience.wait(for: { await request.value }) else {
      // Before what comes late is looked at: whoever is told that it is held is told nothing else.
      await hold(parcels.filter(\.mayBeHeld), in: place, isUnderWay: true)
      Task { await settleLate(parcels, await request.value, place) }
      return
    }
    var unserved: [Parcel] = []
    var answered: [(Parcel, Result<HandOverAnswer, PeerFailure>)] = []
    for (parcel, answer) in zip(parcels, answers.each) {
      if parcel.mayBeHeld, answer.isUnserved { unserved.append(parcel) } else { answered.append((parcel, answer)) }
    }
    settle(answered, after: answers.noted)
    await hold(unserved, in: place)
  }

  /// Answers whoever waits yet, and notes what the peer says of the devices of those who do not.
  private func settleLate(_ parcels: [Parcel], _ answers: HandOverAnswers, _ place: HoldingPlace) async {
    await answers.noted?.value
    for (parcel, answer) in zip(parcels, answers.each) {
      if let waiter = state.withLock({ $0.waiters.removeValue(forKey: parcel.ticket) }) {
        if let problem = waiter.problem, answer.isUnserved {
          waiter.continuation.resume(returning: .success(.held(problem)))
        } else {
          waiter.continuation.resume(returning: answer.map { .answered($0) })
        }
      } else if case .success(let told) = answer, case .message(let submission, _) = parcel.handOver {
        await place.outbox.answered(submission, with: told.verdict, by: place.peer)
      }
    }
  }

  /// - Parameter isUnderWay: the peer has been asked to take them: those that are not held wait for its answer.
  private func hold(_ parcels: [Parcel], in place: HoldingPlace, isUnderWay: Bool = false) async {
    guard !parcels.isEmpty else { return }
    let problems = await place.outbox.hold(parcels.compactMap(\.outgoing), for: place.peer)
    for (parcel, problem) in zip(parcels, problems) {
      if isUnderWay, let problem {
        state.withLock { $0.waiters[parcel.ticket]?.problem = problem }
      } else {
        settle(parcel, .success(.held(problem)))
      }
    }
  }
}

/// The outbox that holds messages which a peer does not take now.
struct HoldingPlace: Sendable {
  let outbox: Outbox
  let peer: KnownPeer
}

extension Result<HandOverAnswer, PeerFailure> {
  /// Whether it says nothing of the hand-over.
  var isUnserved: Bool {
    switch self {
    case .success(let answer): answer.verdict == .unserved
    case .failure: true
    }
  }
}
