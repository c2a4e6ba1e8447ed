import RelayHTTP

/// Why this side ends a connection.
enum EndReason: String, Sendable, CaseIterable {
  case displaced
  /// The credentials do not hold any more.
  case policy
  case malformed
  case tooMuch = "too-much"
  case done
  case internalError = "internal"
  case restart
  /// It has waited for as long as it may.
  case tooOld = "too-old"

  var close: SocketClose {
    switch self {
    case .displaced: .displaced
    case .policy: .policy
    case .malformed: .protocolError
    case .tooMuch: .tooMuch
    case .done: .done
    case .internalError: .internalError
    case .restart, .tooOld: .restart
    }
  }
}

/// One of the connections that the hub can end.
protocol LiveSession: AnyObject, Sendable {
  /// From any thread; at once, or when it has answered what is under way, on its own event loop.
  func end(_ reason: EndReason)
}
