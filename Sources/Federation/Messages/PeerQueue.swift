import RelayCore
import RelayWork

/// The hand-overs to one peer: which go now, which wait, which are held instead, and what their callers are told. A
/// value: events in, actions out, and each event says when it came. `PeerQueueDriver` performs the actions.
///
/// One hand-over goes at once while nothing is under way. Hand-overs of the meantime gather, and go as the next batch
/// once the one before is decided: each of its hand-overs is the peer's, is held, or was refused. So a later hand-over
/// of a sender never overtakes an earlier one.
///
/// Where messages are held, a request has as long as patience lasts. After that, its messages are held, in their order,
/// and the peer keeps us waiting until the request is over: nothing more is sent, and what may be held is held at once
/// (docs/federation.md, "A peer that keeps us waiting").
struct PeerQueue<Caller: Sendable>: Sendable {
  typealias Instant = ContinuousClock.Instant
  typealias Ticket = UInt64
  typealias Outcome = Result<HandOverOutcome, PeerFailure>
  typealias Size = BatchQueue<Parcel>.Size

  /// One who waits for an outcome.
  struct Waiting {
    let caller: Caller
    let deadline: Instant
    /// Why its message is not held, though the peer has not answered in time either.
    var problem: Problem?
  }

  private var queue: BatchQueue<Parcel>
  var waiting: [Ticket: Waiting] = [:]
  var batches: [Batch.ID: Batch] = [:]
  /// The batch that the queue waits for.
  var current: Batch.ID?
  /// Requests that have outlasted patience and are not over.
  var overdueCount = 0
  private var lastTicket: Ticket = 0
  /// When the next `timeCame` is due.
  private var timer: Instant?
  /// The time of the present event, and what it has brought so far.
  var now: Instant
  var actions = Actions()
  let patience: Duration

  /// - Parameters:
  ///   - batch: bounds of one batch, unless a single hand-over is larger.
  ///   - waitingMax: bounds of the hand-overs that wait behind the batch under way.
  init(
    batch: Size = Size(items: WireLimits.handOversPerBatchMax, bytes: WireLimits.batchBytesMax),
    waitingMax: Size, patience: Duration, at now: Instant
  ) {
    self.now = now
    queue = BatchQueue(bounds: .init(batch: batch, waiting: waitingMax)) { .init(items: 1, bytes: $0.bytes) }
    self.patience = patience
  }

  /// The size of all that waits behind the batch under way.
  var waitingSize: Size { queue.waiting }
  /// Whether the peer has left a request without an answer for longer than patience lasts, and still does.
  var isKeptWaiting: Bool { overdueCount > 0 }

  /// `caller` hands `handOver` over.
  /// - Parameters:
  ///   - holdsMessages: whether messages for the peer are held.
  ///   - isAlone: whether it waits for no other, and no other for it.
  ///   - deadline: when its caller is told `.timedOut`.
  mutating func submitted(
    _ handOver: HandOver, by caller: Caller, holdsMessages: Bool, isAlone: Bool = false, until deadline: Instant,
    at now: Instant
  ) -> (ticket: Ticket, actions: Actions) {
    self.now = now
    let parcel = Parcel(
      ticket: nextTicket(), handOver: handOver, bytes: handOver.wireBytesMax, holdsMessages: holdsMessages)
    let admission: BatchQueue<Parcel>.Admission = isAlone ? .isFirst : queue.admit(parcel)
    if admission == .full {
      actions.outcomes.append((caller, .failure(.busy)))
    } else {
      waiting[parcel.ticket] = Waiting(caller: caller, deadline: deadline)
      watch(deadline)
      if isAlone { begin([parcel]) } else if admission == .isFirst { beginNext() }
    }
    return (parcel.ticket, takeActions())
  }

  /// The caller has gone: what waits is taken back, what is under way goes on without it.
  mutating func cancelled(_ ticket: Ticket) { _ = abandon(ticket) }

  /// The time has come that `Actions.timer` gave.
  mutating func timeCame(at now: Instant) -> Actions {
    guard let timer, timer <= now else { return Actions() }
    (self.now, self.timer) = (now, nil)
    for id in batches.filter({ $0.value.patienceEnd.map { $0 <= now } ?? false }).keys.sorted() {
      patienceEnded(with: id)
    }
    // Ascending: the queue is searched from its beginning.
    for ticket in waiting.filter({ $0.value.deadline <= now }).keys.sorted() {
      guard let gone = abandon(ticket) else { continue }
      actions.outcomes.append((gone.caller, gone.problem.map { .success(.held($0)) } ?? .failure(.timedOut)))
    }
    let next = (waiting.values.map(\.deadline) + batches.values.compactMap(\.patienceEnd)).min()
    if let next { watch(next) }
    return takeActions()
  }

  private mutating func abandon(_ ticket: Ticket) -> Waiting? {
    guard let gone = waiting.removeValue(forKey: ticket) else { return nil }
    _ = queue.remove { $0.ticket == ticket }
    return gone
  }

  /// Has `timeCame` told at `deadline` at the latest. A deadline that comes up later is not before patience ends: so
  /// one timer serves all of them, and what is over in time, as nearly all is, sets none.
  mutating func watch(_ deadline: Instant) {
    let due = min(deadline, now + patience)
    if let timer, timer <= due { return }
    timer = due
    actions.timer = due
  }

  mutating func takeActions() -> Actions {
    defer { actions = Actions() }
    return actions
  }

  mutating func nextTicket() -> Ticket {
    lastTicket += 1
    return lastTicket
  }

  /// Begins the batch that comes next, if anything waits.
  mutating func beginNext() {
    current = nil
    while current == nil, let parcels = queue.next() {
      let id = begin(parcels)
      if batches[id]?.isDecided == false { current = id }
    }
  }

  /// Tells the caller of `parcel`, unless it has gone, or was told.
  mutating func end(_ parcel: Parcel, _ outcome: Outcome) {
    if let told = waiting.removeValue(forKey: parcel.ticket) { actions.outcomes.append((told.caller, outcome)) }
  }
}
