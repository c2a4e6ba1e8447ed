import Glibc
import NIOCore
import NIOPosix
import NIOSSL

/// Why a provider gave no answer.
enum PushFailure: Error, Equatable {
  /// No connection.
  case unreachable
  /// No TLS, or not with whom it should be.
  case handshake
  /// The connection ended under the request.
  case lost
  /// The same, and it was told of another request on that connection already, or the server had announced it.
  case lostToo
  /// The server says that it has not begun with the request.
  case notTaken
  case timedOut
  case cancelled

  init(_ error: any Error) {
    switch error {
    case let failure as PushFailure: self = failure
    case NIOSSLError.uncleanShutdown: self = .lost
    case is NIOSSLError, is NIOSSLExtraError, is BoringSSLError: self = .handshake
    case is NIOConnectionError: self = .unreachable
    case ChannelError.connectTimeout: self = .unreachable
    case let error as IOError:
      self =
        [ECONNREFUSED, EHOSTUNREACH, ENETUNREACH, ETIMEDOUT, EADDRNOTAVAIL].contains(error.errnoCode)
        ? .unreachable : .lost
    default: self = .lost
    }
  }

  var outcome: PushOutcome {
    switch self {
    case .unreachable: .temporary(.unreachable)
    case .handshake: .temporary(.handshake)
    case .lost: .temporary(.lost)
    case .lostToo: .temporary(.lostToo)
    case .notTaken: .temporary(.notTaken)
    case .timedOut: .temporary(.timedOut)
    case .cancelled: .temporary(.cancelled)
    }
  }
}

extension PushReason {
  package static let unreachable = PushReason(.transport, "unreachable")
  package static let handshake = PushReason(.transport, "handshake")
  /// The connection ended under the request: the provider may have taken the push.
  package static let lost = PushReason(.transport, "lost")
  /// As `lost`, of a connection whose end is known already: no failure more.
  package static let lostToo = PushReason(.transport, "lost-too")
  /// The provider says that it has not begun with the push: it was about to close the connection, as a rule.
  package static let notTaken = PushReason(.transport, "not-taken")
  package static let timedOut = PushReason(.transport, "timed-out")
}
