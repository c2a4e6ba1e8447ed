import AsyncHTTPClient
import Glibc
import NIOCore
import NIOHTTP1
import NIOHTTP2
import NIOPosix
import NIOSSL
import RelayCore
import Synchronization

/// A request to a provider. Its address, headers and body are secrets: never logged.
struct PushRequest: Sendable {
  let url: String
  var headers: HTTPHeaders
  var body: [UInt8]
}

struct PushAnswer: Sendable {
  let status: Int
  let headers: HTTPHeaders
  /// nil when it was larger than `PushClient.answerBytesMax`, or did not come whole: the status counts nevertheless.
  let body: ByteBuffer?
}

/// HTTP to one provider on connections of its own, which are closed when the last reference is gone: a request under
/// way holds one, so a client can be replaced at any time.
///
/// One connection of HTTP/2 carries everything, and stays in use while its other end is silent; so silence in a row
/// makes it take a new one. So does its loss: what was on it is one failure, and may be repeated at once on another.
final class PushClient: Sendable {
  struct Settings: Sendable {
    var speaksHTTP2 = false
    /// Connections of HTTP/1.1; a request waits for one. HTTP/2 has one connection.
    var connectionsMax = 20
    /// Beside the system's.
    var trust: [NIOSSLCertificate] = []
    var chain: [NIOSSLCertificate] = []
    var key: NIOSSLPrivateKey?
    /// Host names, and the addresses to connect to in their place.
    var addresses: [String: String] = [:]
    /// Beyond any attempt's deadline, which ends it first: it also bounds how long a request may wait for a connection
    /// that others use, which says nothing of the provider.
    var connectTimeout = Duration.seconds(60)
    var idleTimeout = Duration.seconds(60)
    /// Silence speaks against a connection of HTTP/2 only where a request had that much time.
    var patience = Duration.seconds(5)
  }

  private struct State {
    var connections: PushConnections
    /// Requests in a row that had no answer in time.
    var silences = 0
  }

  /// Answers are a few hundred bytes.
  static let answerBytesMax = 16 << 10
  private static let silencesMax = 3

  private let settings: Settings
  private let state: Mutex<State>

  init(_ settings: Settings) {
    self.settings = settings
    state = Mutex(State(connections: PushConnections(settings)))
  }

  func post(_ request: PushRequest, deadline: ContinuousClock.Instant) async throws(PushFailure) -> PushAnswer {
    let connections = connections()
    let isPatient = deadline - .now >= settings.patience
    do throws(PushFailure) {
      let answer = try await connections.post(request, deadline: deadline)
      note(isSilent: false, connections)
      return answer
    } catch {
      if isPatient, error == .timedOut { note(isSilent: true, connections) }
      guard settings.speaksHTTP2, error == .lost || error == .notTaken else { throw error }
      throw replace(connections, after: error)
    }
  }

  /// The connections to use: never ones that take no more requests.
  private func connections() -> PushConnections {
    state.withLock { state in
      if state.connections.end.hasCome { state = State(connections: PushConnections(settings)) }
      return state.connections
    }
  }

  private func note(isSilent: Bool, _ connections: PushConnections) {
    state.withLock { state in
      guard state.connections === connections else { return }
      state.silences = isSilent ? state.silences + 1 : 0
      guard settings.speaksHTTP2, state.silences >= Self.silencesMax else { return }
      state = State(connections: PushConnections(settings))
    }
  }

  /// The connection ended under a request. - Returns: what that request is told.
  private func replace(_ connections: PushConnections, after failure: PushFailure) -> PushFailure {
    let told = connections.end.tell(failure)
    // One stream that is refused says nothing of the others.
    guard failure == .lost || connections.end.hasCome else { return told }
    state.withLock { state in
      if state.connections === connections { state = State(connections: PushConnections(settings)) }
    }
    return told
  }
}

/// The connections of a client; closed when the last reference is gone.
private final class PushConnections: Sendable {
  let end: PushConnectionEnd
  private let client: HTTPClient

  init(_ settings: PushClient.Settings) {
    let end = PushConnectionEnd()
    self.end = end
    var tls = TLSConfiguration.makeClientConfiguration()
    tls.minimumTLSVersion = .tlsv12
    if !settings.trust.isEmpty { tls.additionalTrustRoots = [.certificates(settings.trust)] }
    if let key = settings.key {
      tls.certificateChain = settings.chain.map { .certificate($0) }
      tls.privateKey = .privateKey(key)
    }
    var configuration = HTTPClient.Configuration(
      tlsConfiguration: tls, redirectConfiguration: .disallow,
      timeout: .init(connect: TimeAmount(settings.connectTimeout)), decompression: .disabled)
    configuration.httpVersion = settings.speaksHTTP2 ? .automatic : .http1Only
    configuration.connectionPool.idleTimeout = TimeAmount(settings.idleTimeout)
    // As long as the protocol is not agreed on, HTTP/2 counts as HTTP/1.1: a burst would open as many connections.
    configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit =
      settings.speaksHTTP2 ? 1 : settings.connectionsMax
    if settings.speaksHTTP2 {
      configuration.http2ConnectionDebugInitializer = { channel in
        channel.pipeline.addHandler(PushConnectionWatch(end))
      }
    }
    // The lane decides what is tried again, and when.
    configuration.connectionPool.retryConnectionEstablishment = false
    configuration.dnsOverride = settings.addresses
    client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
  }

  deinit {
    // Nothing is under way; a second call, the one thing that could fail, is ruled out.
    client.shutdown { _ in }
  }

  func post(_ request: PushRequest, deadline: ContinuousClock.Instant) async throws(PushFailure) -> PushAnswer {
    // They stay open until the answer is there, whoever has taken others meanwhile.
    defer { withExtendedLifetime(self) {} }
    let limit = NIODeadline.now() + TimeAmount(deadline - .now)
    var outgoing = HTTPClientRequest(url: request.url)
    outgoing.method = .POST
    outgoing.headers = request.headers
    outgoing.body = .bytes(ByteBuffer(bytes: request.body))
    let response: HTTPClientResponse
    do {
      response = try await client.execute(outgoing, deadline: limit)
    } catch {
      throw Task.isCancelled ? .cancelled : PushFailure(error)
    }
    let body = await collect(response.body, until: limit)
    return PushAnswer(status: Int(response.status.code), headers: response.headers, body: body)
  }

  /// The client's own deadline ends with the head of the answer; this one holds for its body.
  private func collect(_ body: HTTPClientResponse.Body, until deadline: NIODeadline) async -> ByteBuffer? {
    let collecting = Task { try await body.collect(upTo: PushClient.answerBytesMax) }
    let timer = client.eventLoopGroup.any().scheduleTask(deadline: deadline) { collecting.cancel() }
    defer { timer.cancel() }
    return await withTaskCancellationHandler {
      // The status has come; a body that does not is none.
      try? await collecting.value
    } onCancel: {
      collecting.cancel()
    }
  }
}

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
    case is CancellationError: self = .cancelled
    case let error as HTTPClientError: self = Self.read(error)
    case let error as NIOHTTP2Errors.StreamClosed where error.errorCode == .refusedStream: self = .notTaken
    case is NIOHTTP2Errors.CreatedStreamAfterGoaway: self = .notTaken
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

  private static func read(_ error: HTTPClientError) -> PushFailure {
    switch error {
    case .deadlineExceeded, .readTimeout, .writeTimeout, .getConnectionFromPoolTimeout: .timedOut
    case .connectTimeout: .unreachable
    case .tlsHandshakeTimeout: .handshake
    case .invalidURL, .emptyHost, .emptyScheme: .unreachable
    // No caller cancelled it: it met a connection that was about to close, and nothing was sent.
    case .cancelled: .notTaken
    default: .lost
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
