import RelayCore

/// The client side of the relay protocol: one relay, as one device or as nobody yet.
///
/// A value that is cheap to copy: all copies share one pool of connections, which closes when the last one is gone.
/// Safe to use from many tasks at once. A method sends one request and never repeats it.
///
///     let client = try RelayClient(url: "http://127.0.0.1:8080")
///     let code = try await client.requestCode(for: number, by: .development)
public struct RelayClient: Sendable {
  /// How long to wait, and whom to trust.
  public struct Options: Sendable {
    public var connectTimeout: Duration = .seconds(5)
    /// From the first byte of a request to the last one of its answer.
    public var requestTimeout: Duration = .seconds(30)
    /// Connections kept to the relay; further requests wait for one of them.
    public var connectionsMax = 8
    /// PEM text of the certificates that may vouch for an `https` relay; nil trusts the system's.
    public var trustRootsPEM: String?

    public init() {}
  }

  /// Without a trailing slash.
  public let url: String
  /// Sent with every request that is not for anybody's eyes; nil before the device has any.
  public let credentials: Credentials?
  let connections: RelayConnections
  /// Where requests go that need this client's credentials; nil for connections of their own.
  let carrier: (any RequestCarrier)?

  /// - Parameter url: the relay's base address, such as `https://relay.example:8443`.
  /// - Throws: `.invalidArgument` when the URL or the trust roots cannot be read. Nothing is sent yet.
  public init(url: String, credentials: Credentials? = nil, options: Options = Options()) throws(RelayClientError) {
    guard url.hasPrefix("http://") || url.hasPrefix("https://") else {
      throw .invalidArgument("a relay's URL begins with http:// or https://")
    }
    self.url = url.hasSuffix("/") ? String(url.dropLast()) : url
    self.credentials = credentials
    self.connections = try RelayConnections(url: self.url, options: options)
    self.carrier = nil
  }

  /// The same relay and connections, as another device.
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

/// Carries requests in place of connections of their own. Implemented by `LiveSession`, whose folder is above this one.
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
  /// 1,000 evaluations of 145 bytes, in base64.
  static let evaluationsBytesMax = 512 << 10
  /// 10,000 outputs of 8 bytes and 2 more, in base64, and 4,095 names of relays.
  static let outputsBytesMax = 512 << 10
  /// 100 messages whose two bodies are as large as a relay takes them, in base64.
  static let messagesBytesMax = 24 << 20
}
