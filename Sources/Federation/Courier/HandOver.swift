import RelayCore

/// What is handed over to a peer: it is the peer's once it answers with success.
enum HandOver: Sendable, Equatable {
  case message(Submission, source: DeviceAddress)
  /// `source` has received what `destination`, the peer's account, sent at `timestamp` (reference 1.13.6).
  case receipt(Timestamp, source: DeviceAddress, destination: AccountNumber)

  /// Of what clients wrote.
  var byteCount: Int {
    switch self {
    case .message(let submission, _):
      submission.messages.reduce(0) { $0 + ($1.body?.count ?? 0) + ($1.content?.count ?? 0) }
    case .receipt: 0
    }
  }
}

/// The peer's answer to one hand-over, whether it travelled alone or in a batch.
struct HandOverAnswer: Sendable, Equatable {
  let status: Int
  /// Of 409 and 410; nil when the body could not be read.
  var devices: Problem.Devices?
  var retryAfterSeconds: Int?
  /// Of 403: it is about this hand-over's source alone; any other is about this relay.
  var isSourceRefused = false

  var isSuccess: Bool { (200...299).contains(status) }
}
