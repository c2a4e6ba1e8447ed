/// The reason why a WebSocket ended. Messages that were not acknowledged come again on the device's next connection.
public enum ConnectionEnd: Error, Sendable, Hashable {
  /// This client closed it.
  case closedHere
  /// The relay closed it, with a code of RFC 6455, section 7.4, or of the protocol (docs/delivery.md, "Limits and
  /// close codes"; 4001 is for wrong credentials). `code` is 1005 when the relay gave none. `reason` has at most 123
  /// bytes and no control characters.
  case closedByRelay(code: Int, reason: String)
  /// The connection ended without a close frame: the network failed, the relay's process died, or the relay gave no
  /// sign of life.
  case lost(reason: String)
  /// The relay sent what the protocol forbids, and this client closed the connection.
  case broken(reason: String)

  /// True for code 1000: a newer connection of the same device stands. Do not connect again: that would end the newer
  /// one.
  public var isDisplaced: Bool { code == 1000 }
  /// True for code 1012: the relay's process stops. Connect again after a short random pause; another process
  /// answers.
  public var isRestart: Bool { code == 1012 }
  /// True when connecting again may help, after a pause. It is false after a close of this client's own, a
  /// displacement, a refusal, and a breach of the protocol.
  public var isTemporary: Bool {
    switch self {
    case .closedHere, .broken: false
    case .lost: true
    case .closedByRelay(let code, _): ![1000, 1002, 1003, 1007, 1008, 1009, 4001].contains(code)
    }
  }

  /// The code of `.closedByRelay`; nil for any other end.
  public var code: Int? {
    if case .closedByRelay(let code, _) = self { code } else { nil }
  }
}

extension ConnectionEnd: CustomStringConvertible {
  /// An English phrase for people and logs. It has no fixed form.
  public var description: String {
    switch self {
    case .closedHere: "closed by this client"
    case .closedByRelay(let code, let reason):
      "closed by the relay with \(code)" + (reason.isEmpty ? "" : " (\(reason))")
    case .lost(let reason): "the connection was lost: \(reason)"
    case .broken(let reason): "the relay broke the protocol: \(reason)"
    }
  }

  /// The error of a request over the socket that got no answer. The relay may have done what it asks for.
  var failure: RelayClientError { .unreachable(reason: description) }
}
