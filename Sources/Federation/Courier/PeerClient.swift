import AsyncHTTPClient
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL
import RelayCore
import Synchronization
import X509

/// How much of us one peer may hold.
package struct PeerLimits: Sendable {
  package var connectTimeout = Duration.seconds(2)
  package var requestTimeout = Duration.seconds(10)
  /// Requests to one peer at a time; further ones fail at once, so that a slow peer holds nothing of other peers.
  package var requestsMax = 256
  /// Shorter than the listener's idle time-out: we close first, no request meets a closing connection.
  package var idleTimeout = Duration.seconds(60)
  package init() {}
}

/// HTTP to one peer under one certificate of theirs and one of ours, on connections of its own.
///
/// Trusts that peer's CA alone and demands that the host matches. Owns its connections: `retire` closes them after
/// the last request.
final class PeerClient: Sendable {
  private struct Use {
    var requests = 0
    var isRetired = false
  }

  private let client: HTTPClient
  private let base: String
  private let limits: PeerLimits
  private let use = Mutex(Use())

  /// - Throws: when BoringSSL refuses a certificate.
  init(
    endpoint: PeerEndpoint, authority: Certificate, credentials: FederationCredentials, limits: PeerLimits
  ) throws {
    base = endpoint.text
    self.limits = limits
    var configuration = HTTPClient.Configuration(
      tlsConfiguration: try credentials.clientConfiguration(trusting: authority), redirectConfiguration: .disallow,
      timeout: .init(connect: TimeAmount(limits.connectTimeout), read: TimeAmount(limits.requestTimeout)),
      decompression: .disabled)
    configuration.httpVersion = .automatic
    configuration.connectionPool.idleTimeout = TimeAmount(limits.idleTimeout)
    // The caller is told at once; the next request tries anew.
    configuration.connectionPool.retryConnectionEstablishment = false
    client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
  }

  deinit {
    // Unless it was retired, which every owner does, the connections have to be closed here.
    if use.withLock({ !$0.isRetired }) { Self.shutDown(client) }
  }

  func send(_ request: PeerRequest) async throws(PeerFailure) -> PeerAnswer {
    try begin()
    defer { end() }
    do {
      return try await perform(request)
    } catch {
      throw PeerFailure(error)
    }
  }

  /// Closes the connections once no request is under way. New requests fail with `.retired`.
  func retire() {
    let isIdle = use.withLock { use in
      defer { use.isRetired = true }
      return !use.isRetired && use.requests == 0
    }
    if isIdle { Self.shutDown(client) }
  }

  private func begin() throws(PeerFailure) {
    let failure: PeerFailure? = use.withLock { use in
      if use.isRetired { return .retired }
      if use.requests >= limits.requestsMax { return .busy }
      use.requests += 1
      return nil
    }
    if let failure { throw failure }
  }

  private func end() {
    let isLast = use.withLock { use in
      use.requests -= 1
      return use.isRetired && use.requests == 0
    }
    if isLast { Self.shutDown(client) }
  }

  private func perform(_ request: PeerRequest) async throws -> PeerAnswer {
    let deadline = NIODeadline.now() + TimeAmount(limits.requestTimeout)
    var outgoing = HTTPClientRequest(url: base + request.path)
    outgoing.method = request.method
    if let tag = request.ifNoneMatch { outgoing.headers.add(name: "If-None-Match", value: tag) }
    if let body = request.body {
      outgoing.headers.add(name: "Content-Type", value: "application/json")
      outgoing.body = .bytes(ByteBuffer(bytes: body))
    }
    let response = try await client.execute(outgoing, deadline: deadline)
    let body = try await collect(response.body, upTo: request.answerBytesMax, until: deadline)
    return PeerAnswer(
      status: Int(response.status.code), entityTag: response.headers.first(name: "ETag"),
      retryAfterSeconds: response.headers.first(name: "Retry-After").flatMap { Int($0) }, body: body)
  }

  /// The client's own deadline ends with the head of the answer; this one holds for its body.
  private func collect(
    _ body: HTTPClientResponse.Body, upTo max: Int, until deadline: NIODeadline
  ) async throws -> ByteBuffer {
    let collecting = Task { try await body.collect(upTo: max) }
    let timer = client.eventLoopGroup.any().scheduleTask(deadline: deadline) { collecting.cancel() }
    defer { timer.cancel() }
    return try await withTaskCancellationHandler {
      try await collecting.value
    } onCancel: {
      collecting.cancel()
    }
  }

  private static func shutDown(_ client: HTTPClient) {
    // Nothing is under way, so nothing can fail but a second call, which `Use` rules out.
    client.shutdown { _ in }
  }
}

extension PeerFailure {
  init(_ error: any Error) {
    switch error {
    case let failure as PeerFailure: self = failure
    case is CancellationError: self = .timedOut
    case is NIOTooManyBytesError: self = .answerTooLarge
    case let error as HTTPClientError: self = Self.read(error)
    case let error as NIOSSLError: self = .handshake(reason: "\(error)")
    case let error as NIOConnectionError:
      let reason = error.connectionErrors.first?.error ?? error.dnsAError ?? error.dnsAAAAError
      self = .unreachable(reason: reason.map { "\($0)" } ?? "no address answered")
    default: self = .unreachable(reason: "\(error)")
    }
  }

  private static func read(_ error: HTTPClientError) -> PeerFailure {
    switch error {
    case .deadlineExceeded, .readTimeout, .writeTimeout: .timedOut
    case .connectTimeout, .getConnectionFromPoolTimeout: .unreachable(reason: "no answer to the connection attempt")
    case .tlsHandshakeTimeout: .handshake(reason: "the handshake took too long")
    case .remoteConnectionClosed: .handshake(reason: "the peer closed the connection")
    case .cancelled, .alreadyShutdown: .cancelled
    default: .unreachable(reason: error.shortDescription)
    }
  }
}
