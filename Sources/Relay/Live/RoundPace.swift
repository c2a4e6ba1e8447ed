/// Which sessions of a round have a turn: all of them while the word of other processes may be lost, and a share of
/// them while all of it arrives. No I/O and no clock: it is told of each step.
///
/// A session's id, drawn at random, says in which rounds it has its turn. So no moment has more turns than another.
///
/// | state | turns | becomes |
/// |---|---|---|
/// | broken, as it begins | all sessions, in each round | steady, once words arrive |
/// | steady | each session, in one of `rounds` rounds | broken; doubtful, when something was missed |
/// | doubtful | all sessions, for one round | steady |
struct RoundPace: Sendable {
  /// The sessions of one step that have a turn.
  struct Turn: Sendable {
    /// nil for all of them.
    fileprivate let round: UInt64?
    fileprivate let steps: UInt64
    fileprivate let rounds: UInt64

    func includes(_ id: UInt64) -> Bool {
      guard let round else { return true }
      // The remainder says in which step of a round it stands (`SessionRounds`).
      return id / steps % rounds == round % rounds
    }
  }

  private let steps: UInt64
  private let rounds: UInt64
  private var isBroken = true
  /// The steps that are left of a round in which all have a turn.
  private var doubtfulSteps: UInt64 = 0
  private var step: UInt64 = 0

  /// - Parameters:
  ///   - steps: of one round, 1 or more.
  ///   - rounds: from one turn of a session to its next while all words arrive, 1 or more.
  init(steps: Int, rounds: Int) {
    self.steps = UInt64(max(1, steps))
    self.rounds = UInt64(max(1, rounds))
  }

  /// From here on every word arrives. All sessions have an extra turn now, which the caller gives them.
  mutating func connected() {
    isBroken = false
    doubtfulSteps = 0
  }

  /// Words may be lost.
  mutating func disconnected() { isBroken = true }

  /// Something may have been missed, though words arrive.
  mutating func doubted() { doubtfulSteps = steps }

  /// The next step begins.
  mutating func next() -> Turn {
    let round = step / steps
    step &+= 1
    let isForAll = isBroken || doubtfulSteps > 0
    if doubtfulSteps > 0 { doubtfulSteps -= 1 }
    return Turn(round: isForAll ? nil : round, steps: steps, rounds: rounds)
  }
}
