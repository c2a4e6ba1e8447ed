/// The outcomes of several hand-overs.
struct HandOverAnswers: Sendable {
  /// One for each, in their order.
  let each: [Result<HandOverAnswer, PeerFailure>]
  /// Ends when the store has the note of what was handed over: nobody is told of an answer before. nil: it has it.
  private(set) var noted: Task<Void, Never>?

  init(_ each: [Result<HandOverAnswer, PeerFailure>]) { self.each = each }

  init(_ answers: [HandOverAnswer], noted: Task<Void, Never>? = nil) {
    each = answers.map { .success($0) }
    self.noted = noted
  }

  init(unanswered count: Int, _ failure: PeerFailure) {
    each = Array(repeating: .failure(failure), count: count)
  }

  /// nil: without an answer.
  var answers: [HandOverAnswer?] { each.map(\.success) }

  /// The first failure that left one without an answer; nil if all were answered.
  var failure: PeerFailure? { each.lazy.compactMap(\.failure).first }
}

extension Result {
  var success: Success? { if case .success(let value) = self { value } else { nil } }
  var failure: Failure? { if case .failure(let error) = self { error } else { nil } }
}
