import RelayCore
import RelayWork

/// The note of one request's hand-overs (docs/federation.md, "Receipts").
///
/// If the peer answers at once, hand-over and answer are noted together, in one row for each message, written once.
/// If the peer keeps us waiting, the hand-over is noted meanwhile: the peer may have taken it, and receipts may come.
struct HandOverNote: Sendable {
  private let ledger: HandOverLedger
  private let crossings: [[Crossing]]
  private let peer: RelayName
  private let ticket: SharedCountdown.Ticket
  /// The writing of the hand-overs alone, once it has begun.
  private let early = Waiter<Task<Void, Never>>()

  /// To be made before the request is sent: the peer may answer with receipts sooner than with its answer.
  /// - Parameter crossings: of each hand-over its own.
  init(of crossings: [[Crossing]], to peer: RelayName, in ledger: HandOverLedger) {
    (self.ledger, self.crossings, self.peer) = (ledger, crossings, peer)
    ledger.remember(crossings)
    ticket = ledger.unanswered.begin { [early] in
      early.end(with: Task { await ledger.note(crossings, by: peer) })
    }
  }

  /// Returns when the store has it all, or will not take it in time.
  /// - Parameter answers: one for each hand-over; none where it is not known what became of them, or all were refused.
  func answered(_ answers: [HandOverAnswer]) async {
    let isEarly = !ledger.unanswered.end(ticket)
    let pairs = zip(crossings, answers.map(\.isSuccess) + repeatElement(false, count: crossings.count - answers.count))
    let taken = pairs.filter(\.1).map(\.0)
    if isEarly {
      await early.value()?.value
      return ledger.answered(taken.flatMap(\.self), by: peer)
    }
    await ledger.note(pairs.filter { !$1 }.map(\.0), answered: taken, by: peer)
  }
}
