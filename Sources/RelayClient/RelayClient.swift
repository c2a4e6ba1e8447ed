import RelayCore

/// The client side of the relay protocol: one relay, as one device or as nobody yet.
///
/// A value is cheap to copy. All copies share one pool of connections, which closes when the last copy is gone. It is
/// safe to use from many tasks at once.
///
/// Each method sends one request and does not repeat it, unless its documentation says so. All throw
/// ``RelayClientError``. Beside the errors that a method names, each can throw `.unreachable`, `.timedOut`,
/// `.unexpectedAnswer`, and `.refused` with the status 500 or 503 when the relay fails. If the task is cancelled, the
/// error is `.unreachable`.
public struct RelayClient: Sendable {
  /// Time limits, the number of connections, and trust.
  public struct Options: Sendable {
    /// The longest time until a connection stands. Then the method throws `.timedOut`.
    public var connectTimeout: Duration = .seconds(5)
    /// The longest time from the start of a request to the last byte of its answer, uploads and downloads included.
    /// Then the method throws `.timedOut`.
    public var requestTimeout: Duration = .seconds(30)
    /// The most connections that are kept to one host; less than 1 counts as 1. Further requests wait for one of
    /// them, and the wait counts against `requestTimeout`. Live sessions have a connection each beside these.
    public var connectionsMax = 8
    /// PEM text of the certificates that may vouch for an `https` relay, and for the host of its attachments; nil
    /// trusts the system's.
    public var trustRootsPEM: String?

    /// Makes options with the defaults that the properties show.
    public init() {}
  }

  /// The relay's base address, without a trailing slash.
  public let url: String
  /// The credentials of every request that needs some; nil before the device has any.
  public let credentials: Credentials?
  let connections: RelayConnections
  /// Carries the requests that need this client's credentials; nil for the pool of connections.
  let carrier: (any RequestCarrier)?

  /// Makes a client with a pool of connections of its own. Nothing is sent yet.
  /// - Parameters:
  ///   - url: the relay's base address, such as `https://relay.example:8443`, with or without a trailing slash.
  ///   - credentials: the device to speak for; nil to register, or to wait for a link.
  ///   - options: time limits, the number of connections, and trust.
  /// - Throws: `.invalidArgument` when the URL or the trust roots cannot be read.
  public init(url: String, credentials: Credentials? = nil, options: Options = Options()) throws(RelayClientError) {
    self.url = url.hasSuffix("/") ? String(url.dropLast()) : url
    self.credentials = credentials
    self.connections = try RelayConnections(url: self.url, options: options)
    self.carrier = nil
  }

  /// Makes a client of the same relay that shares this one's connections, and speaks for another device.
  ///
  /// If this client came from a ``LiveSession``, the other one sends its requests over the pool, not over the
  /// session.
  /// - Parameter credentials: the device to speak for; nil for none.
  /// - Returns: the other client. This one stays as it is.
  public func with(_ credentials: Credentials?) -> RelayClient {
    RelayClient(url: url, credentials: credentials, connections: connections)
  }

  init(url: String, credentials: Credentials?, connections: RelayConnections, carrier: (any RequestCarrier)? = nil) {
    self.url = url
    self.credentials = credentials
    self.connections = connections
    self.carrier = carrier
  }
}

/// Carries requests in place of connections of their own. Implemented by `LiveSession`, whose folder is above this
/// one.
protocol RequestCarrier: Sendable {
  /// Sends `request` once and waits for the whole answer, whatever its status.
  func exchange(_ request: RelayRequest) async throws(RelayClientError) -> RelayAnswer
}

/// Upper bounds of what an answer may bring, so that no relay can fill a client's memory.
enum AnswerLimits {
  static let smallBytesMax = 64 << 10
  /// Keys of as many devices as anyone has.
  static let keysBytesMax = 1 << 20
  /// 50,000 contacts, the most one request can ask for.
  static let directoryBytesMax = 8 << 20
  /// 1,000 evaluations of 32 bytes and a proof, in base64.
  static let evaluationsBytesMax = 128 << 10
  /// 10,000 outputs of 8 bytes and 2 more, in base64, and 4,095 names of relays.
  static let outputsBytesMax = 512 << 10
  /// 100 messages whose two bodies are as large as a relay takes them, in base64.
  static let messagesBytesMax = 24 << 20
}
