import RelayCore

/// Several hand-overs of which some may travel only behind others: round by round, in their order. Made of answers; the
/// shell sends.
///
/// In order, what follows a message that was put off, of the same source for the same destination, is not tried and has
/// the same answer, as a peer with `orderedBatches` gives it. After a round without all of its answers there is none.
struct HandOverRounds {
  /// The part of the rest that may travel now, from its beginning.
  enum Part {
    /// As many as one batch takes; one at least.
    case batch
    /// As many as may be under way at a time, one for each destination: the peer may not take the second before the
    /// first.
    case destinations
    /// No two messages with the same source and destination.
    case pairs
  }

  private let handOvers: [HandOver]
  private let part: Part
  private let isInOrder: Bool
  /// The hand-overs that were neither sent nor answered, ascending.
  private var pending: [Int]
  private var round: [Int] = []
  private var answers: [HandOverAnswer?]
  private var failure: PeerFailure?
  private var putOff: [AccountPair: HandOverAnswer] = [:]

  init(_ handOvers: some Collection<HandOver>, of part: Part, isInOrder: Bool) {
    self.handOvers = Array(handOvers)
    self.part = part
    self.isInOrder = isInOrder
    pending = Array(self.handOvers.indices)
    answers = Array(repeating: nil, count: self.handOvers.count)
  }

  /// Sends all of `handOvers`. A round begins when the one before is answered and noted.
  static func run(
    _ handOvers: some Collection<HandOver>, of part: Part, isInOrder: Bool,
    _ send: (ArraySlice<HandOver>) async -> HandOverAnswers
  ) async -> HandOverAnswers {
    var rounds = HandOverRounds(handOvers, of: part, isInOrder: isInOrder)
    while let round = rounds.next() {
      let answers = await send(round)
      await answers.noted?.value
      rounds.answered(answers)
    }
    return rounds.outcome
  }

  var outcome: HandOverAnswers {
    HandOverAnswers(answers.map { $0.map { .success($0) } ?? .failure(failure ?? .cancelled) })
  }

  /// - Returns: what to send now, one at least; nil when that is all.
  mutating func next() -> ArraySlice<HandOver>? {
    guard failure == nil, !pending.isEmpty else { return nil }
    let round = part.beginning(of: pending.map { handOvers[$0] }[...])
    self.round = Array(pending.prefix(round.count))
    pending.removeFirst(round.count)
    return round
  }

  /// - Parameter sent: one for each of the round.
  mutating func answered(_ sent: HandOverAnswers) {
    failure = sent.failure
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

extension HandOverRounds.Part {
  /// How many hand-overs to a peer without batches are under way at a time, for each that sends several.
  private static let sideBySideMax = 16

  /// - Parameter handOvers: one at least.
  func beginning(of handOvers: ArraySlice<HandOver>) -> ArraySlice<HandOver> {
    switch self {
    case .batch:
      var bytes = 0
      let more = handOvers.prefix(WireLimits.handOversPerBatchMax).prefix { handOver in
        bytes += handOver.wireBytesMax
        return bytes <= WireLimits.batchBytesMax
      }
      return more.isEmpty ? handOvers.prefix(1) : more
    case .destinations:
      var destinations: Set<AccountNumber> = []
      return handOvers.prefix(Self.sideBySideMax).prefix { destinations.insert($0.destination).inserted }
    case .pairs:
      var pairs: Set<AccountPair> = []
      return handOvers.prefix { $0.orderedPair.map { pairs.insert($0).inserted } ?? true }
    }
  }
}
