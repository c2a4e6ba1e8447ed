import RelayWork

/// The reason why a request to a relay failed.
///
/// This library puts no number, token, key or body into it. The `reason` of `.refused` is the relay's own text.
public enum RelayClientError: Error, Sendable, Equatable {
  /// The relay answered with a status that is not 2xx. Redirections are not followed.
  ///
  /// This project's relays have changed nothing then, except perhaps after 500 and 503. `reason` is the printable
  /// ASCII of the answer's first line, at most 200 characters; from these relays it is `CODE: TEXT` (docs/errors.md).
  /// `retryAfter` is nil when the answer names no whole seconds.
  case refused(status: Int, reason: String, retryAfter: Duration?)
  /// 409: the messages of a bundle are not for exactly the destination's active devices (reference 3.2).
  ///
  /// Nothing was sent. Draw a prekey of each device of `missing`, leave out those of `extra`, and send again. Limit
  /// the repetitions. Both hold device ids.
  case mismatchedDevices(missing: [Int], extra: [Int])
  /// 410: the devices with these ids were installed anew (reference 3.3).
  ///
  /// Nothing was sent. Drop the sessions with them, draw new prekeys, and send again. Limit the repetitions.
  case staleDevices([Int])
  /// There is no answer: no connection, a certificate that was not accepted, a connection that was lost, or a task
  /// that was cancelled. The relay may have done what the request asks for.
  case unreachable(reason: String)
  /// There is no whole answer within a time limit of ``RelayClient/Options``. The relay may have done what the
  /// request asks for.
  case timedOut
  /// The answer is not the one that the protocol demands, or is larger than such an answer may be. `status` is the
  /// answer's, or 200.
  case unexpectedAnswer(status: Int, reason: String)
  /// The caller's own mistake, in words. The request that it concerns was not sent.
  case invalidArgument(String)

  /// The HTTP status of the answer; nil when there was none.
  public var status: Int? {
    switch self {
    case .refused(let status, _, _), .unexpectedAnswer(let status, _): status
    case .mismatchedDevices: 409
    case .staleDevices: 410
    case .unreachable, .timedOut, .invalidArgument: nil
    }
  }

  /// The pause that the relay asks for before the request is repeated, in whole seconds; nil when it asks for none.
  public var retryAfter: Duration? {
    if case .refused(_, _, let retryAfter) = self { retryAfter } else { nil }
  }
}

extension RelayClientError: CustomStringConvertible {
  /// An English sentence for people and logs. It has no fixed form.
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

/// Runs `body`, cancels it when `limit` is over, and then throws `RelayClientError.timedOut`.
package func withDeadline<Result: Sendable>(_ limit: Duration, _ body: @escaping @Sendable () async throws -> Result)
  async throws -> Result
{
  try await withThrowingTaskGroup(of: Result.self) { group in
    group.addTask { try await body() }
    group.addTask {
      guard await Pause.for(limit) else { throw CancellationError() }
      throw RelayClientError.timedOut
    }
    defer { group.cancelAll() }
    guard let first = try await group.next() else { throw CancellationError() }
    return first
  }
}
