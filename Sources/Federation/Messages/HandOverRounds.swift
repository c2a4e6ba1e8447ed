import RelayCore

/// Several hand-overs of which some may travel only behind others: round by round, in their order. Made of answers; the
/// shell sends.
///
/// In order, what follows a message that was put off, of the same source for the same destination, is not tried and has
/// the same answer, as a peer with `orderedBatches` gives it. After a round without all of its answers there is none.
struct HandOverRounds {
  /// The part of the rest that may travel now: from its beginning, one at least.
  typealias Part = (ArraySlice<HandOver>) -> ArraySlice<HandOver>

  private let handOvers: [HandOver]
  private let isInOrder: Bool
  /// The hand-overs that were neither sent nor answered, ascending.
  private var pending: [Int]
  private var round: [Int] = []
  private var answers: [HandOverAnswer?]
  private var failure: PeerFailure?
  private var putOff: [AccountPair: HandOverAnswer] = [:]

  init(_ handOvers: some Collection<HandOver>, isInOrder: Bool) {
    self.handOvers = Array(handOvers)
    self.isInOrder = isInOrder
    pending = Array(self.handOvers.indices)
    answers = Array(repeating: nil, count: self.handOvers.count)
  }

  /// One answer for each, as far as there is one.
  var outcome: HandOverAnswers { HandOverAnswers(answers, failure) }

  /// - Returns: what to send now; nil when that is all.
  mutating func next(_ part: Part) -> ArraySlice<HandOver>? {
    guard failure == nil, !pending.isEmpty else { return nil }
    let round = part(pending.map { handOvers[$0] }[...])
    self.round = Array(pending.prefix(round.count))
    pending.removeFirst(self.round.count)
    return round.isEmpty ? nil : round
  }

  /// - Parameter sent: one for each of the round.
  mutating func answered(_ sent: HandOverAnswers) {
    failure = sent.failure ?? (sent.answers.contains(nil) ? .cancelled : nil)
    for (index, answer) in zip(round, sent.answers) {
      answers[index] = answer
      guard isInOrder, let answer, answer.isPutOff, let pair = handOvers[index].orderedPair else { continue }
      putOff[pair] = putOff[pair] ?? answer
    }
    guard !putOff.isEmpty else { return }
    for index in pending { answers[index] = handOvers[index].orderedPair.flatMap { putOff[$0] } }
    pending.removeAll { answers[$0] != nil }
  }
}
