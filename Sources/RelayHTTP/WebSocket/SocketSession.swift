// The seam between WebSockets as a transport (this folder: upgrade, frames, limits, closing) and what is spoken over
// them (Relay's sessions).

package import HTTPTypes
package import NIOCore
package import RelayCore

/// The head of a request for a WebSocket.
package struct SocketRequest: Sendable {
  /// Without the query, as it stood in the request.
  package let path: Substring
  /// As it stood in the request, undecoded; empty without one. May hold credentials: never to be logged.
  package let query: Substring
  package let headers: HTTPFields
  /// The client's name for the relay: its `Host`.
  package let authority: String?
  /// The origin of the request, trusted proxies looked through.
  package let origin: RequestOrigin

  package init(
    path: Substring, query: Substring, headers: HTTPFields, authority: String? = nil, origin: RequestOrigin
  ) {
    self.path = path
    self.query = query
    self.headers = headers
    self.authority = authority
    self.origin = origin
  }
}

/// The decision about a request for a WebSocket.
package enum SocketAdmission: Sendable {
  /// The connection becomes a WebSocket; `session` is called once, on its event loop, or never when the client has gone
  /// meanwhile: what must be given back is taken in it and not before.
  case admitted(limits: SocketLimits, session: @Sendable (any Socket) -> any SocketSession)
  /// It becomes one and is closed at once: how the JSON dialect refuses (reference 1.12).
  case closed(SocketClose)
  /// Answered over HTTP, and the connection closed.
  case refused(Problem)
}

/// Decides on WebSockets.
package protocol SocketAuthorizer: Sendable {
  /// Whether WebSockets are to be had at `path` (with or without a slash at its end). Other paths are the router's,
  /// whatever they ask to be upgraded to.
  func isAt(_ path: Substring) -> Bool
  /// Asked once for each well-formed request; nothing is read from the connection meanwhile. An answer that takes
  /// longer than 10 seconds comes to nothing: the client has been refused by then.
  func admit(_ request: SocketRequest) async -> SocketAdmission
}

/// The limits of a client on one WebSocket. A client that exceeds them is closed with `SocketClose.tooMuch`.
package struct SocketLimits: Sendable {
  /// The bytes of one message, its fragments together.
  package var messageBytesMax: Int
  /// Messages that may come at once, and how many more each second.
  package var burst: Int
  package var perSecond: Double
  /// Without anything from the client for so long, pings included, it is closed.
  package var idle: Duration

  package init(messageBytesMax: Int, burst: Int, perSecond: Double, idle: Duration) {
    self.messageBytesMax = messageBytesMax
    self.burst = burst
    self.perSecond = perSecond
    self.idle = idle
  }
}

/// Why a WebSocket ends: a code of RFC 6455, 7.4, or of the protocol, and a short text. Holds nothing that came from
/// the client.
package struct SocketClose: Sendable, Equatable {
  package let code: UInt16
  package let reason: String
  package init(_ code: UInt16, _ reason: String) {
    self.code = code
    self.reason = reason
  }
  /// A newer connection of the device stands (reference 1.12.1).
  package static let displaced = SocketClose(1000, "OK")
  /// Done, on the provisioning channel (reference 1.14).
  package static let done = SocketClose(1001, "OK")
  package static let protocolError = SocketClose(1002, "Badly formatted")
  package static let notText = SocketClose(1007, "Not UTF-8")
  /// Nothing came for too long, or a message took too long.
  package static let idle = SocketClose(1001, "Idle")
  package static let policy = SocketClose(1008, "Not allowed")
  package static let tooBig = SocketClose(1009, "Too big")
  package static let tooMuch = SocketClose(1008, "Too many messages")
  package static let internalError = SocketClose(1011, "Internal error")
  /// The process stops: come back, to another one.
  package static let restart = SocketClose(1012, "Service restart")
  /// The message has given way to others (`BodyRoom`).
  package static let tryLater = SocketClose(1013, "Try again later")
  /// The JSON dialect's word for wrong credentials.
  package static let unauthorized = SocketClose(4001, "Unauthorized")
}

/// How a WebSocket ended, as its transport saw it; the metric of ended ones counts by `EndReason`.
package enum SocketEnd: String, Sendable, CaseIterable {
  /// The client closed it, and said so.
  case client
  /// The connection broke, or the client went without a word.
  case lost
  /// Nothing came for too long.
  case idle
  /// The client took nothing of what waited for it, or let far too much gather.
  case stalled
  /// The client broke the protocol, or sent too large a message.
  case malformed
  /// The client sent more than it may.
  case tooMuch
  /// The session closed it.
  case session
  /// The listener stopped.
  case shutdown
}

/// One whole message.
package enum SocketMessage {
  case text(ByteBuffer)
  case binary(ByteBuffer)
}

/// The conversation over one WebSocket. Every call comes on the socket's event loop; none comes after `closed`.
package protocol SocketSession: AnyObject {
  /// Called first: from now on the socket can be written to.
  func opened()
  /// Also while the socket is closing, for what the client had sent by then.
  func received(_ message: SocketMessage)
  /// The written bytes have left, after the socket's buffer had been full: there is room again.
  func becameWritable()
  /// Called once, last, whoever ended the connection and however.
  func closed()
}

/// A WebSocket, to be used on its event loop alone.
package protocol Socket: AnyObject {
  /// The one event loop on which the socket may be used.
  var eventLoop: any EventLoop { get }
  /// Whether the buffer of what waits to be sent has room: when it has not, what can wait should.
  var isWritable: Bool { get }
  /// Why it ends; nil while nothing has ended it. Known when the session is told `closed`.
  var end: SocketEnd? { get }
  /// Written and flushed at the end of the event loop's turn, with all others of the turn. Nothing once it is closing.
  func send(_ message: SocketMessage)
  /// The message that was received last does not count against `SocketLimits`: it answers what was sent.
  func refund()
  /// Sends a close frame, and closes the connection when the client has answered it or has not in time.
  func close(_ close: SocketClose)
}
