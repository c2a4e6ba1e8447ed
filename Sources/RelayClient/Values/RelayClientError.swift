/// Why a request to a relay did not do what it was for.
public enum RelayClientError: Error, Sendable, Equatable {
  /// The relay answered and refused; nothing was done.
  ///
  /// `reason` is the relay's own word for it, one line of at most 200 printable characters, or empty.
  case refused(status: Int, reason: String, retryAfter: Duration?)
  /// 409: the messages of a bundle are not for exactly the destination's devices. Nothing was sent: draw a prekey of
  /// each missing device, drop the extra ones, send again.
  case mismatchedDevices(missing: [Int], extra: [Int])
  /// 410: these devices were installed anew. Nothing was sent: draw new prekeys of them, send again.
  case staleDevices([Int])
  /// No answer: no connection, a refused certificate, or a connection lost on the way. A request may have been done.
  case unreachable(reason: String)
  /// No whole answer within the time of the client's options. The request may have been done.
  case timedOut
  /// The answer is not what the protocol says, or larger than any such answer may be.
  case unexpectedAnswer(status: Int, reason: String)
  /// The caller's own mistake; nothing was sent.
  case invalidArgument(String)

  /// The answer's status, or nil where there was no answer.
  public var status: Int? {
    switch self {
    case .refused(let status, _, _), .unexpectedAnswer(let status, _): status
    case .mismatchedDevices: 409
    case .staleDevices: 410
    case .unreachable, .timedOut, .invalidArgument: nil
    }
  }

  /// How long the relay asks to wait before the request is repeated.
  public var retryAfter: Duration? {
    if case .refused(_, _, let retryAfter) = self { retryAfter } else { nil }
  }
}

extension RelayClientError: CustomStringConvertible {
  public var description: String {
    switch self {
    case .refused(let status, let reason, let wait):
      "the relay refused with status \(status)" + (reason.isEmpty ? "" : " (\(reason))")
        + (wait.map { "; it asks to wait \($0)" } ?? "")
    case .mismatchedDevices(let missing, let extra):
      "the destination's devices differ (409): missing \(missing), too many \(extra)"
    case .staleDevices(let devices): "devices were installed anew (410): \(devices)"
    case .unreachable(let reason): "the relay cannot be reached: \(reason)"
    case .timedOut: "the relay did not answer in time"
    case .unexpectedAnswer(let status, let reason): "an answer with status \(status) that is not understood: \(reason)"
    case .invalidArgument(let reason): reason
    }
  }
}
