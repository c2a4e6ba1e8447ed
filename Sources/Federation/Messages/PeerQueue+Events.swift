import RelayCore

/// The result of a step.
extension PeerQueue {
  /// - Parameter held: those of the destinations for which messages are held; or why that is not known.
  mutating func lookedUp(_ id: Batch.ID, _ held: Result<Set<AccountNumber>, Problem>, at now: Instant) -> Actions {
    guard let parcels = batches[id]?.parcels else { return Actions() }
    self.now = now
    batches[id]?.openSteps -= 1
    switch held {
    case .success(let destinations):
      func mustWait(_ parcel: Parcel) -> Bool { parcel.mayBeHeld && destinations.contains(parcel.handOver.destination) }
      // They have no destination in common with the rest.
      hold(parcels.filter(mustWait), of: id)
      send(parcels.filter { !mustWait($0) }, of: id)
    case .failure(let problem):
      for parcel in parcels where parcel.mayBeHeld { end(parcel, .success(.held(problem))) }
      send(parcels.filter { !$0.mayBeHeld }, of: id)
    }
    settle(id)
    return takeActions()
  }

  /// The request of a batch is over.
  /// - Parameters:
  ///   - answers: one for each that was sent, in order.
  ///   - isNoted: whether callers may be told; else `noted` follows.
  mutating func answered(
    _ id: Batch.ID, _ answers: [Result<HandOverAnswer, PeerFailure>], isNoted: Bool, at now: Instant
  ) -> Actions {
    guard var batch = batches[id], batch.isUnderWay else { return Actions() }
    self.now = now
    (batch.isUnderWay, batch.patienceEnd, batch.isNoted) = (false, nil, isNoted)
    if batch.isOverdue { overdueCount -= 1 } else { batch.openSteps -= 1 }
    var unserved: [Parcel] = []
    for (parcel, answer) in zip(batch.parcels, answers) {
      if !batch.isOverdue, parcel.mayBeHeld, answer.isUnserved {
        unserved.append(parcel)
      } else {
        batch.untold.append((parcel, answer))
      }
    }
    batches[id] = batch
    hold(unserved, of: id)
    settle(id)
    return takeActions()
  }

  /// The store has the note of what was handed over, or takes none.
  mutating func noted(_ id: Batch.ID, at now: Instant) -> Actions {
    self.now = now
    batches[id]?.isNoted = true
    settle(id)
    return takeActions()
  }

  /// - Parameters:
  ///   - parcels: as of the step.
  ///   - problems: of each message nil where it is held, else why it is not.
  mutating func held(
    _ id: Batch.ID, _ parcels: [Parcel], isUnderWay: Bool, _ problems: [Problem?], at now: Instant
  ) -> Actions {
    self.now = now
    batches[id]?.openSteps -= 1
    for (parcel, problem) in zip(parcels, problems) {
      if isUnderWay, let problem {
        // It waits on for the late answer.
        waiting[parcel.ticket]?.problem = problem
      } else {
        end(parcel, .success(.held(problem)))
      }
    }
    settle(id)
    return takeActions()
  }
}
