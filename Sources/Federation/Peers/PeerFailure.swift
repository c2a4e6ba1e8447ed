import AsyncHTTPClient
import NIOCore
import NIOPosix
import NIOSSL
import RelayCore
import RelayHTTP

/// Why a peer gave no answer. Texts name neither path nor body.
enum PeerFailure: Error, Equatable, CustomStringConvertible {
  /// As many requests as one peer may hold are under way, as many hand-overs wait, or as many names are looked up.
  case busy
  /// Not tried: the peer has not answered for a while, and is being probed.
  case halted(PeerFault)
  case unreachable(reason: String)
  /// Not tried: its URL leads to an address that is not the public internet's.
  case privateAddress
  /// A certificate was refused: by us, or by the peer, which hangs up behind the handshake of TLS 1.3.
  case handshake(reason: String)
  case timedOut
  case answerTooLarge
  /// It answered a batch with something else than one answer for each hand-over.
  case unreadable
  case cancelled
  /// The client was replaced before the request began: the next one takes it.
  case retired

  /// The peer's fault; nil if the failure says nothing about the peer, or says that it is there.
  var fault: PeerFault? {
    switch self {
    case .unreachable, .privateAddress: .network
    case .handshake: .certificate
    case .timedOut: .silent
    case .busy, .halted, .answerTooLarge, .unreadable, .cancelled, .retired: nil
    }
  }

  /// Whether the peer answered, if not as it should.
  var isAnswer: Bool { self == .answerTooLarge || self == .unreadable }

  /// One word, for metrics.
  var word: String {
    switch self {
    case .busy: "busy"
    case .halted: "halted"
    case .unreachable: "unreachable"
    case .privateAddress: "private-address"
    case .handshake: "handshake"
    case .timedOut: "timed-out"
    case .answerTooLarge, .unreadable: "unreadable"
    case .cancelled, .retired: "cancelled"
    }
  }

  var description: String {
    switch self {
    case .busy: "too many requests are under way to it, or too many names are being looked up"
    case .halted(let fault): "it has not answered for a while (\(fault.rawValue))"
    case .unreachable(let reason): "no connection: \(reason)"
    case .privateAddress: "its URL leads to an address that is not a public one, and federation.allow-private is off"
    case .handshake(let reason): "no TLS connection: \(reason)"
    case .timedOut: "no answer in time"
    case .answerTooLarge: "its answer was too large"
    case .unreadable: "its answer could not be read"
    case .cancelled, .retired: "the request was cancelled"
    }
  }
}

extension PeerFailure {
  init(_ error: any Error) {
    switch error {
    case let failure as PeerFailure: self = failure
    case is CancellationError: self = .timedOut
    case is NIOTooManyBytesError: self = .answerTooLarge
    case let error as HTTPClientError: self = Self.read(error)
    case NIOSSLError.handshakeFailed(.sslError(let stack)) where stack == [.eofDuringHandshake]:
      // The other side cannot have refused a certificate that it has not seen yet.
      self = .unreachable(reason: "the connection was closed in the handshake")
    case is NIOSSLError, is NIOSSLExtraError, is BoringSSLError: self = .handshake(reason: FaultWords.of(error))
    default: self = .unreachable(reason: FaultWords.of(error))
    }
  }

  private static func read(_ error: HTTPClientError) -> PeerFailure {
    switch error {
    case .deadlineExceeded, .readTimeout, .writeTimeout: .timedOut
    case .connectTimeout, .getConnectionFromPoolTimeout: .unreachable(reason: "no answer to the connection attempt")
    case .tlsHandshakeTimeout: .unreachable(reason: "the handshake took too long")
    case .remoteConnectionClosed: .handshake(reason: "the peer closed the connection")
    case .cancelled, .alreadyShutdown: .cancelled
    default: .unreachable(reason: error.shortDescription)
    }
  }
}
