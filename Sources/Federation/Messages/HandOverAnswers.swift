/// The outcomes of several hand-overs, in their order.
struct HandOverAnswers: Sendable {
  /// nil: without an answer.
  private(set) var answers: [HandOverAnswer?] = []
  /// The failure that left some without an answer; nil if all were answered.
  private(set) var failure: PeerFailure?
  /// Ends when the store has the note of what was handed over: nobody is told of an answer before. nil: it has it.
  private(set) var noted: Task<Void, Never>?

  init(_ answers: [HandOverAnswer] = [], noted: Task<Void, Never>? = nil) {
    self.answers = answers
    self.noted = noted
  }

  /// - Parameter failure: what kept some from being answered.
  init(_ answers: [HandOverAnswer?], _ failure: PeerFailure?) {
    self.answers = answers
    self.failure = failure
  }

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

  /// Each by itself.
  var each: [Result<HandOverAnswer, PeerFailure>] {
    answers.map { answer in answer.map { .success($0) } ?? .failure(failure ?? .cancelled) }
  }
}
