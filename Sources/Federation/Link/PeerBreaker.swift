package import RelayCore

/// Whether requests to one peer are worth a try: while they are not, they fail at once, and a probe now and then finds
/// out when they are again (docs/federation.md, "A peer that is away").
package struct PeerBreaker: Sendable, Equatable {
  package enum State: Sendable, Equatable {
    /// Requests pass. Becomes `open` with the third failure in a row, at once when a certificate was refused or the
    /// peer does not have us, and when another process says so.
    case closed(failures: Int)
    /// Requests fail. Becomes `closed` with the first answer, and when another process says so.
    case open(PeerFault, since: Timestamp)
  }

  /// The change of the breaker's state, so that the caller can act on it.
  package enum Change: Sendable, Equatable {
    case none
    /// To be probed; `isOurs`: other processes are to be told, unless it `isPrivate`.
    case opened(PeerFault, isOurs: Bool)
    /// Open as before, for another reason: other processes are to be told.
    case redefined(PeerFault)
    /// Open as before, and private no more: other processes are to be told.
    case disclosed
    case closed(isOurs: Bool)
  }

  package static let failuresMax = 3
  /// How long this process keeps its openings to itself after another one has contradicted it: twice as long where
  /// that comes time after time, until the peer answers it. A process that alone does not reach the peer would else
  /// take all others off it again and again. A finding that lasts for longer is told: others may have found it and keep
  /// it to themselves, too.
  package static let reserve = Duration.seconds(60)
  package static let reserveMax = reserve * 16
  /// A finding that is withdrawn within this time was contradicted. Behind it the peer may have come back.
  package static let contradiction = Duration.seconds(10)

  package private(set) var state = State.closed(failures: 0)
  /// The condition that the table of peers named last.
  private var shared = PeerCondition.reachable
  /// When the last opening had begun: the word of it may still come in from the table after it has ended.
  private var past: Timestamp?
  /// Whether this process has told others of the opening.
  private var isTold = false
  /// Whether other processes are to know nothing of the opening.
  package private(set) var isPrivate = false
  /// When another process last contradicted this one; nil before.
  private var contradicted: Timestamp?
  /// How long it keeps what it finds to itself from then on.
  private var reserve = PeerBreaker.reserve

  package init() {}

  package var fault: PeerFault? {
    if case .open(let fault, _) = state { fault } else { nil }
  }

  /// To be told to other processes, unless it `isPrivate`.
  package var condition: PeerCondition {
    if case .open(let fault, let since) = state { .unreachable(fault, since: since) } else { .reachable }
  }

  /// The peer answered, whatever it was.
  package mutating func answered() -> Change {
    reserve = Self.reserve
    guard case .open(_, let since) = state else {
      state = .closed(failures: 0)
      return .none
    }
    close(since)
    return .closed(isOurs: true)
  }

  /// The peer gave no answer, for `fault`, or that it does not have us.
  package mutating func failed(_ fault: PeerFault, now: Timestamp) -> Change {
    switch state {
    case .open(let former, let since):
      if isPrivate, !isReserved(at: now) {
        (isTold, isPrivate) = (true, false)
        // Others may contradict it from now on.
        state = .open(fault, since: max(now, Timestamp(millis: since.millis + 1)))
        return fault == former ? .disclosed : .redefined(fault)
      }
      guard fault != former else { return .none }
      state = .open(fault, since: since)
      if isPrivate { return .none }
      isTold = true
      return .redefined(fault)
    case .closed(let failures):
      guard fault.isFinal || failures + 1 >= Self.failuresMax else {
        state = .closed(failures: failures + 1)
        return .none
      }
      // Two openings in one millisecond would be taken for one.
      let since = past.map { max(now, Timestamp(millis: $0.millis + 1)) } ?? now
      state = .open(fault, since: since)
      isPrivate = isReserved(at: now)
      isTold = !isPrivate
      return .opened(fault, isOurs: true)
    }
  }

  /// The table of peers, which all processes share, was read: `condition` is what it says. Only what changed since it
  /// was read last counts, and nothing that this process knew before.
  package mutating func sharedConditionRead(_ condition: PeerCondition, now: Timestamp) -> Change {
    let former = shared
    shared = condition
    guard former != condition else { return .none }
    switch (state, condition) {
    case (.closed, .unreachable(let fault, let since)):
      guard since != past else { return .none }
      state = .open(fault, since: since)
      (isTold, isPrivate) = (false, false)
      return .opened(fault, isOurs: false)
    case (.open(let fault, _), .unreachable(_, let since)):
      // Another process was first: its word will be withdrawn for both.
      state = .open(fault, since: since)
      isPrivate = false
      return .none
    case (.open(_, let since), .reachable):
      guard case .unreachable(_, since) = former else { return .none }
      if isTold, isNear(now, since) { noteContradiction(at: now) }
      close(since)
      return .closed(isOurs: false)
    case (.closed, .reachable): return .none
    }
  }

  private mutating func noteContradiction(at now: Timestamp) {
    let isRepeated = contradicted.map { now >= $0 && now < $0.adding(reserve * 2) } ?? false
    reserve = isRepeated ? min(reserve * 2, Self.reserveMax) : Self.reserve
    contradicted = now
  }

  /// A clock that jumped may have put `since` into the future.
  private func isNear(_ now: Timestamp, _ since: Timestamp) -> Bool {
    now < since.adding(Self.contradiction) && since < now.adding(Self.contradiction)
  }

  /// A clock that jumps back must not make the reserve last.
  private func isReserved(at now: Timestamp) -> Bool {
    contradicted.map { now >= $0 && now < $0.adding(reserve) } ?? false
  }

  private mutating func close(_ since: Timestamp) {
    past = since
    (isTold, isPrivate) = (false, false)
    state = .closed(failures: 0)
  }
}

extension PeerFault {
  /// Another try tells nothing new.
  fileprivate var isFinal: Bool { self == .certificate || self == .refused }
}
