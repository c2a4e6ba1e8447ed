import RelayCore

extension PeerQueue {
  /// The answer to an event.
  struct Actions: Sendable {
    /// To be begun, each with an event at its end. They may run side by side.
    var steps: [Step] = []
    /// Callers with what they are told; each caller is told once.
    var outcomes: [(caller: Caller, outcome: Outcome)] = []
    /// Messages whose callers wait no more, with the peer's word: it counts for what it says of their destinations'
    /// devices.
    var notes: [(submission: Submission, verdict: HandOverAnswer.Verdict)] = []
    /// When to tell `timeCame`; nil where nothing is to be set.
    var timer: Instant?
  }

  enum Step: Sendable {
    /// Find out for which of these destinations messages are held, then tell `lookedUp`.
    case lookUp(Batch.ID, [AccountNumber])
    /// Ask the peer to take these, then tell `answered`, and `noted` if the answers are to be noted first.
    case send(Batch.ID, [HandOver], BatchTerms)
    /// Have these messages held, in their order, then tell `held`. Under way: the peer has been asked to take them, and
    /// may do so yet.
    case hold(Batch.ID, [Parcel], isUnderWay: Bool)
  }

  /// A hand-over on its way.
  struct Parcel: Sendable {
    let ticket: Ticket
    let handOver: HandOver
    /// An upper bound of the bytes that it takes in a batch.
    let bytes: Int
    /// Whether messages for the peer are held: then patience bounds its request.
    let holdsMessages: Bool

    var mayBeHeld: Bool { holdsMessages && handOver.isMessage }
  }
}
