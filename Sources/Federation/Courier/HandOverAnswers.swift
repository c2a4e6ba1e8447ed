/// What became of several hand-overs, in their order.
struct HandOverAnswers: Sendable {
  /// nil: without an answer.
  private(set) var answers: [HandOverAnswer?] = []
  /// What kept some from being answered; nil when all were.
  private(set) var failure: PeerFailure?

  init(_ answers: [HandOverAnswer] = []) { self.answers = answers }

  init(unanswered count: Int, _ failure: PeerFailure) {
    answers = Array(repeating: nil, count: count)
    self.failure = failure
  }

  init(_ results: [Result<HandOverAnswer, PeerFailure>]) {
    for result in results {
      switch result {
      case .success(let answer): answers.append(answer)
      case .failure(let failure):
        answers.append(nil)
        self.failure = self.failure ?? failure
      }
    }
  }

  /// Whether the next of them may not be sent any more.
  func isEnd(_ terms: BatchTerms) -> Bool {
    failure != nil || (terms.isInOrder && answers.contains { $0?.isPutOff ?? true })
  }

  /// Each by itself.
  var each: [Result<HandOverAnswer, PeerFailure>] {
    answers.map { answer in answer.map { .success($0) } ?? .failure(failure ?? .cancelled) }
  }

  static func += (all: inout Self, more: Self) {
    all.answers += more.answers
    all.failure = all.failure ?? more.failure
  }

  /// `count` more were not even sent.
  mutating func leaveOut(_ count: Int) { answers += Array(repeating: nil, count: count) }
}
