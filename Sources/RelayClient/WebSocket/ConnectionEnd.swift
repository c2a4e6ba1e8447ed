/// Why a WebSocket ended. What was not acknowledged comes again on the device's next connection.
public enum ConnectionEnd: Error, Sendable, Hashable {
  /// This client closed it.
  case closedHere
  /// The relay closed it, with a code of RFC 6455, 7.4, or of the protocol (4001: wrong credentials), and a text of at
  /// most 123 bytes. 1005 where it gave none.
  case closedByRelay(code: Int, reason: String)
  /// The connection was lost without a word.
  case lost(reason: String)
  /// The relay sent what the protocol forbids, and this client closed the connection.
  case broken(reason: String)

  /// A newer connection of the same device stands: connecting again would end that one in its turn.
  public var isDisplaced: Bool { code == 1000 }
  /// The process stops: connect again, after a moment drawn at random.
  public var isRestart: Bool { code == 1012 }
  /// Whether connecting again, after a pause, may help: not after one's own word, a displacement, or a refusal.
  public var isTemporary: Bool {
    switch self {
    case .closedHere, .broken: false
    case .lost: true
    case .closedByRelay(let code, _): ![1000, 1002, 1003, 1007, 1008, 1009, 4001].contains(code)
    }
  }

  /// The code that the relay closed with; nil where it did not close.
  public var code: Int? {
    if case .closedByRelay(let code, _) = self { code } else { nil }
  }
}

extension ConnectionEnd: CustomStringConvertible {
  public var description: String {
    switch self {
    case .closedHere: "closed by this client"
    case .closedByRelay(let code, let reason):
      "closed by the relay with \(code)" + (reason.isEmpty ? "" : " (\(reason))")
    case .lost(let reason): "the connection was lost: \(reason)"
    case .broken(let reason): "the relay broke the protocol: \(reason)"
    }
  }

  /// What a request over the socket failed with. It may have been done.
  var failure: RelayClientError { .unreachable(reason: description) }
}
