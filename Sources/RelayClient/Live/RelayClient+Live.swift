import Foundation

extension RelayClient {
  /// How a live connection is opened and kept.
  public struct LiveOptions: Sendable {
    public var dialect: LiveDialect = .protobuf
    /// Credentials go into the `Authorization` header instead of the query: proxies on the way log queries. Not every
    /// relay reads them there. The JSON dialect has them in the query always.
    public var hasCredentialsInHeader = false
    /// How often a ping is sent, so that nobody on the way forgets the connection. One that brings nothing, not even
    /// the answer to a ping, for four times as long counts as lost.
    public var keepAlive: Duration = .seconds(15)
    /// Deliveries, and their bytes together, that may wait here to be taken; then nothing is read. More than a relay
    /// of this project sends before it wants acknowledgements.
    public var waitingMax = 128
    public var waitingBytesMax = 2 << 20
    /// A larger message ends the connection. Answers to requests are messages, too.
    public var messageBytesMax = 5 << 20

    public init() {}
  }

  /// Connects as this client's device.
  ///
  /// A connection that the device has already is ended by the relay.
  /// - Parameter signalingKey: what the device registered.
  /// - Throws: `.refused`: 401 or 403 wrong credentials (some relays open and close at once: `ConnectionEnd` with 4001),
  ///   413 too many, 503 the relay stops or is away; `.unreachable`, `.timedOut`.
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
  /// Connects as this device. - Throws: as `RelayClient.connect(signalingKey:options:)`.
  public func connect(options: RelayClient.LiveOptions = .init()) async throws(RelayClientError) -> LiveSession {
    try await client.connect(signalingKey: try SignalingKey(attributes.signalingKey), options: options)
  }
}
