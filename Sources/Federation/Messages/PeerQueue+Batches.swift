import RelayCore

extension PeerQueue {
  /// Hand-overs that go together: some are held at once because of what is held already, the rest is sent, and what the
  /// peer does not serve is held in the end.
  struct Batch: Sendable {
    typealias ID = Ticket

    /// All of them, then those that the peer was asked to take.
    var parcels: [Parcel]
    /// The steps that the next batch waits for.
    var openSteps = 0
    var isUnderWay = false
    /// When patience with the request ends; nil where it has as much time as a request may take, or none is under way.
    var patienceEnd: Instant?
    /// Whether the request has outlasted patience.
    var isOverdue = false
    /// The answers that callers are not told yet.
    var untold: [(parcel: Parcel, answer: Result<HandOverAnswer, PeerFailure>)] = []
    /// Whether the store has the note of what was handed over: nobody is told of an answer before.
    var isNoted = false

    /// Whether the next batch may begin.
    var isDecided: Bool { openSteps == 0 }
  }

  @discardableResult
  mutating func begin(_ parcels: [Parcel]) -> Batch.ID {
    let id = nextTicket()
    batches[id] = Batch(parcels: parcels)
    let holdable = parcels.filter(\.mayBeHeld)
    if isKeptWaiting, parcels.contains(where: \.holdsMessages) {
      for parcel in parcels where !parcel.mayBeHeld { end(parcel, .failure(.timedOut)) }
      hold(holdable, of: id)
    } else if holdable.isEmpty {
      send(parcels, of: id)
    } else {
      batches[id]?.openSteps += 1
      actions.steps.append(.lookUp(id, Array(Set(holdable.map(\.handOver.destination)))))
    }
    settle(id)
    return id
  }

  /// The peer may have taken the batch already. If it is handed over again, the peer knows it by its fingerprint.
  /// Hand-overs that cannot be held wait for the answer, as receipts do.
  mutating func patienceEnded(with id: Batch.ID) {
    guard let parcels = batches[id]?.parcels else { return }
    overdueCount += 1
    batches[id]?.patienceEnd = nil
    batches[id]?.isOverdue = true
    batches[id]?.openSteps -= 1
    hold(parcels.filter(\.mayBeHeld), of: id, isUnderWay: true)
    settle(id)
  }

  mutating func send(_ parcels: [Parcel], of id: Batch.ID) {
    guard var batch = batches[id], !parcels.isEmpty else { return }
    (batch.parcels, batch.isUnderWay) = (parcels, true)
    batch.openSteps += 1
    let isPatient = parcels.contains(where: \.holdsMessages)
    if isPatient { batch.patienceEnd = now + patience }
    batches[id] = batch
    if isPatient { watch(now + patience) }
    actions.steps.append(.send(id, parcels.map(\.handOver), isPatient ? .ordered : .none))
  }

  mutating func hold(_ parcels: [Parcel], of id: Batch.ID, isUnderWay: Bool = false) {
    guard !parcels.isEmpty else { return }
    batches[id]?.openSteps += 1
    actions.steps.append(.hold(id, parcels, isUnderWay: isUnderWay))
  }

  /// Tells callers what they may be told, and goes on to the next batch if this one is decided.
  mutating func settle(_ id: Batch.ID) {
    guard let batch = batches[id] else { return }
    // A caller that is told that its message is held is told nothing else: a late answer comes behind that.
    let isTelling = batch.isNoted && (batch.isDecided || !batch.isOverdue)
    if isTelling {
      batches[id]?.untold = []
      for (parcel, answer) in batch.untold { tell(parcel, answer) }
    }
    guard batch.isDecided else { return }
    if !batch.isUnderWay, isTelling || batch.untold.isEmpty { batches[id] = nil }
    if current == id { beginNext() }
  }

  /// A caller whose message is not held is told why, if the peer's late answer says nothing either.
  private mutating func tell(_ parcel: Parcel, _ answer: Result<HandOverAnswer, PeerFailure>) {
    if let caller = waiting[parcel.ticket] {
      let problem = answer.isUnserved ? caller.problem : nil
      end(parcel, problem.map { .success(.held($0)) } ?? answer.map { .answered($0) })
    } else if case .success(let told) = answer, case .message(let submission, _) = parcel.handOver {
      actions.notes.append((submission, told.verdict))
    }
  }
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
