package import RelayCore

/// A message or a receipt to hand over to a peer. The peer owns it once the peer answers with success.
enum HandOver: Sendable, Equatable {
  case message(Submission, source: DeviceAddress)
  /// `source` has received what `destination`, the peer's account, sent at `timestamp` (reference 1.13.6).
  case receipt(Timestamp, source: DeviceAddress, destination: AccountNumber)

  var isMessage: Bool { if case .message = self { true } else { false } }

  /// Between which accounts its order is kept; nil for a receipt.
  var orderedPair: AccountPair? {
    if case .message(let submission, let source) = self {
      AccountPair(source: source.account, destination: submission.destination)
    } else {
      nil
    }
  }

  /// The id of the client's request that it comes from; nil for a receipt, for which nobody waits.
  var requestID: RequestID? { if case .message(let submission, _) = self { submission.request } else { nil } }

  /// The number of bytes that clients wrote.
  var byteCount: Int {
    switch self {
    case .message(let submission, _):
      submission.messages.reduce(0) { $0 + $1.byteCount }
    case .receipt: 0
    }
  }
}

/// A sender and a recipient. Between them a later message must not overtake an earlier one.
struct AccountPair: Hashable, Sendable {
  let source: AccountNumber
  let destination: AccountNumber
}

/// The outcome of a hand-over that might be held.
enum HandOverOutcome: Sendable, Equatable {
  case answered(HandOverAnswer)
  /// The outbox has it; with a problem: it does not take it.
  case held(Problem?)
}

/// The terms of all hand-overs of a batch, if both relays know them (`PeerCapability.orderedBatches`).
struct BatchTerms: Sendable, Equatable {
  /// Behind a message that may be taken later, none of the same source for the same destination is taken.
  var isInOrder = false
  /// They come from the outbox.
  var hasWaited = false

  /// That a peer that takes no batches lacks, whatever it told.
  static let capabilities: Set<PeerCapability> = [.batches, .orderedBatches]
  static let none = BatchTerms()
  static let ordered = BatchTerms(isInOrder: true)
  static let waited = BatchTerms(isInOrder: true, hasWaited: true)
}

/// The peer's answer to one hand-over, whether it travelled alone or in a batch.
package struct HandOverAnswer: Sendable, Equatable {
  package let status: Int
  /// The devices of a 409 or 410; nil if the body could not be read.
  package var devices: Problem.Devices?
  package var retryAfterSeconds: Int?
  /// Whether a 403 is about this hand-over's source alone. Any other 403 is about this relay.
  package var isSourceRefused = false

  package init(
    status: Int, devices: Problem.Devices? = nil, retryAfterSeconds: Int? = nil, isSourceRefused: Bool = false
  ) {
    self.status = status
    self.devices = devices
    self.retryAfterSeconds = retryAfterSeconds
    self.isSourceRefused = isSourceRefused
  }

  var isSuccess: Bool { (200...299).contains(status) }

  /// The meaning of an answer for the hand-over. Messages sent now and messages that waited are read alike.
  package enum Verdict: Sendable, Equatable {
    /// The peer has it.
    case accepted
    /// There is no such active account.
    case unknown
    /// The account has other devices.
    case otherDevices
    /// The peer will never take it as it is.
    case refused
    /// Too slow, too early, too much: it is the sender's to wait.
    case later
    /// Nothing: the peer is in trouble, or does not take this relay's word, which its operator or ours can mend.
    case unserved
  }

  /// Whether it may be taken as it is, later.
  package var isPutOff: Bool { verdict == .later || verdict == .unserved }

  package var verdict: Verdict {
    switch status {
    case 200...299: .accepted
    case 404: .unknown
    case 409, 410: .otherDevices
    case 403 where isSourceRefused: .refused
    case 401, 403: .unserved
    case 408, 413, 425, 429: .later
    case 400...499: .refused
    default: .unserved
    }
  }
}

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
