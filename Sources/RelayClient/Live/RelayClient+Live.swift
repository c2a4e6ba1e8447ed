import Foundation

extension RelayClient {
  /// The language, signs of life and limits of a live connection.
  public struct LiveOptions: Sendable {
    /// The language of the connection. ``LiveSession/request(_:_:body:contentType:)`` and ``LiveSession/client`` need
    /// `.protobuf`.
    public var dialect: LiveDialect = .protobuf
    /// True to send the credentials in the `Authorization` header, false to send them in the query
    /// (reference 1.12.2).
    ///
    /// Proxies on the way may log queries; historic relays read the query alone. The JSON dialect always uses the
    /// query.
    public var hasCredentialsInHeader = false
    /// How often a ping is sent, so that no proxy forgets the connection. If nothing comes for four times as long,
    /// not even the answer to a ping, the connection counts as lost.
    public var keepAlive: Duration = .seconds(15)
    /// The number of deliveries that may wait to be taken. At the limit nothing more is read. This project's relays
    /// send fewer before they want an answer: 100, or 1 MiB.
    public var waitingMax = 128
    /// The bytes that these deliveries may have together. At the limit nothing more is read.
    public var waitingBytesMax = 2 << 20
    /// The largest message in bytes. A larger one ends the connection; an answer to a request is a message, too.
    public var messageBytesMax = 5 << 20

    /// Makes options with the defaults that the properties show.
    public init() {}
  }

  /// Opens a live connection as this client's device (reference 1.12).
  ///
  /// The relay ends a connection that the device has already. <doc:LiveDelivery> says how to receive.
  /// - Parameters:
  ///   - signalingKey: the key that the device registered. With another one every delivery is `.notAuthentic`.
  ///   - options: the language, signs of life and limits of the connection.
  /// - Returns: an open session. It closes when nobody holds it, its deliveries or its client any more.
  /// - Throws: `.invalidArgument` when the client has no credentials. `.refused`: 401 or 403 wrong credentials; 413
  ///   too many connections; 503 the relay stops or cannot serve. Some relays take wrong credentials and close at
  ///   once: the session ends with 4001.
  public func connect(signalingKey: SignalingKey, options: LiveOptions = LiveOptions()) async throws(RelayClientError)
    -> LiveSession
  {
    guard let credentials else { throw .invalidArgument("connecting needs a device's credentials") }
    var request = ClientSocketOpener.Request(path: "/v1/websocket/")
    if options.hasCredentialsInHeader, options.dialect == .protobuf {
      request.headers = [("Authorization", credentials.basic)]
    } else {
      let name = options.dialect == .json ? "user" : "login"
      request.path += "?\(name)=\(Self.escaped(credentials.user))&password=\(Self.escaped(credentials.password))"
    }
    request.keepAlive = options.keepAlive
    request.messageBytesMax = options.messageBytesMax
    let receiver = LiveReceiver(
      options.dialect, bounds: .init(count: options.waitingMax, bytes: options.waitingBytesMax))
    return LiveSession(with(credentials), try await open(request, receiver), receiver, signalingKey)
  }

  /// - Throws: `.refused` when the relay answers instead.
  func open(_ request: ClientSocketOpener.Request, _ receiver: any ClientSocketReceiver) async throws(RelayClientError)
    -> ClientSocket
  {
    switch try await connections.sockets.open(request, receiver: receiver) {
    case .opened(let socket): return socket
    case .refused(let refusal):
      let answer = RelayAnswer(
        status: refusal.status, retryAfter: refusal.headers["retry-after"].flatMap(Int.init).map { .seconds($0) },
        body: refusal.body)
      _ = try answer.successful()
      throw .unexpectedAnswer(status: refusal.status, reason: "it is no WebSocket")
    }
  }

  /// As a value of a query, read alike by those who take `+` for a space and those who do not.
  private static func escaped(_ text: String) -> String {
    text.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""  // Only surrogates have no encoding.
  }
}

extension RegisteredDevice {
  /// Opens a live connection as this device, with the signaling key of its attributes.
  /// - Parameter options: the language, signs of life and limits of the connection.
  /// - Returns: an open session.
  /// - Throws: as ``RelayClient/connect(signalingKey:options:)``; also `.invalidArgument` when the attributes have no
  ///   usable signaling key.
  public func connect(options: RelayClient.LiveOptions = .init()) async throws(RelayClientError) -> LiveSession {
    try await client.connect(signalingKey: try SignalingKey(attributes.signalingKey), options: options)
  }
}
