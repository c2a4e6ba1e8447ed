import HTTPTypes
package import Logging
package import RelayCore
package import RelayHTTP

/// Decides on WebSockets: devices with credentials at `/v1/websocket/`, devices to be at `/v1/websocket/provisioning/`
/// (reference 1.12, 1.14).
package struct LiveSocketAuthorizer: SocketAuthorizer {
  package struct Policy: Sendable {
    /// Whether `login` means JSON: nothing on the wire tells it from protobuf, and the server speaks first.
    package let loginIsJSON: Bool
    package let idle: Duration
    /// The origins of pages that may open WebSockets; all, if the operator has named none.
    package let origins: AllowedOrigins
    package init(loginIsJSON: Bool, idle: Duration, origins: AllowedOrigins = .unsaid) {
      self.loginIsJSON = loginIsJSON
      self.idle = idle
      self.origins = origins
    }

    /// Callers that are no browsers name no origin.
    func allows(_ request: SocketRequest) -> Bool {
      guard origins != .unsaid, let origin = request.headers[.origin] else { return true }
      return origins.allows(origin)
    }
  }

  private let parts: SessionParts
  private let accounts: AccountCache
  private let lastSeen: LastSeen
  private let policy: Policy
  private let logger: Logger

  package init(
    parts: SessionParts, accounts: AccountCache, lastSeen: LastSeen, policy: Policy, logger: Logger
  ) {
    self.parts = parts
    self.accounts = accounts
    self.lastSeen = lastSeen
    self.policy = policy
    self.logger = logger
  }

  package func isAt(_ path: Substring) -> Bool { Self.place(path) != nil }

  package func admit(_ request: SocketRequest) async -> SocketAdmission {
    guard !parts.hub.isDraining else { return .refused(Problem(.unavailable, retryAfter: .seconds(1))) }
    guard policy.allows(request) else { return .refused(Problem(.originRefused)) }
    switch Self.place(request.path) {
    case .provisioning: return parts.hub.registry.admit(request.origin)
    case .messages: return await admitDevice(request)
    case nil: return .refused(Problem(.notFound))
    }
  }

  private enum Place { case messages, provisioning }

  private static func place(_ path: Substring) -> Place? {
    switch path.last == "/" ? path.dropLast() : path {
    case "/v1/websocket": .messages
    case "/v1/websocket/provisioning": .provisioning
    default: nil
    }
  }

  private func admitDevice(_ request: SocketRequest) async -> SocketAdmission {
    guard let login = SocketLogin(request) else { return .refused(Problem(.credentialsRefused)) }
    do throws(Problem) {
      guard let credentials = login.credentials else { throw Problem(.unauthorized) }
      let caller = try await accounts.caller(credentials)
      guard let device = caller.account.device(caller.address.device) else { throw Problem(.unauthorized) }
      await lastSeen.note(caller, logger: logger)
      let proved = ProvedDevice(address: caller.address, password: device.password)
      return admit(
        SocketCaller(device: proved, origin: request.origin, authority: request.authority), device,
        speaking: dialect(of: login.means))
    } catch {
      return refusal(error, of: login.means)
    }
  }

  private func admit(
    _ caller: SocketCaller, _ device: Device, speaking dialect: any SocketDialect
  ) -> SocketAdmission {
    let key = DeviceSignalingKey(device.signalingKey)
    let idle = dialect is JSONDialect && policy.idle == Self.idleUnsaid ? Self.idleOfJSON : policy.idle
    return .admitted(limits: limits(idle: idle)) { [parts] socket in
      DeviceSession(socket, of: caller, key: key, dialect: dialect, parts: parts)
    }
  }

  private func dialect(of means: SocketLogin.Means) -> any SocketDialect {
    means == .user || policy.loginIsJSON ? JSONDialect() : ProtobufDialect()
  }

  /// As the generations refused wrong credentials; what is not the client's fault is told as over HTTP.
  private func refusal(_ problem: Problem, of means: SocketLogin.Means) -> SocketAdmission {
    guard problem.kind == .unauthorized, means == .login else { return .refused(problem) }
    return policy.loginIsJSON ? .closed(.unauthorized) : .refused(Problem(.credentialsRefused))
  }

  private func limits(idle: Duration) -> SocketLimits {
    SocketLimits(
      messageBytesMax: WireLimits.messageRequestBytesMax + Self.overheadBytes, burst: Self.burst,
      perSecond: Self.perSecond, idle: idle)
  }

  /// The default of `client.websocket.idle-seconds`.
  private static let idleUnsaid = Duration.seconds(90)
  /// Clients of that time rely on it: some send no pings (reference 1.12.3).
  private static let idleOfJSON = Duration.seconds(600)

  /// Bytes of a request around its body.
  private static let overheadBytes = 64 << 10
  /// A whole mailbox acknowledged at once, and more.
  private static let burst = 10_000
  /// An acknowledgement for each delivery: more than one device is ever sent for long.
  private static let perSecond = 2000.0
}
