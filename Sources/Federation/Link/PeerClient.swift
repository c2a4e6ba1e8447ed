import AsyncHTTPClient
import HTTPTypes
import NIOCore
import NIOHTTP1
import RelayCore
import RelayHTTP
import Synchronization
import X509

/// How much of us one peer may hold.
package struct PeerLimits: Sendable {
  package var connectTimeout = Duration.seconds(2)
  package var requestTimeout = Duration.seconds(10)
  /// How long a message that may be held waits for the peer's answer before it is.
  package var patience = Duration.seconds(2)
  /// Requests to one peer at a time; further ones fail at once, so that a slow peer holds nothing of other peers.
  package var requestsMax = 256
  /// How often a peer that does not answer is probed, on the average.
  package var probeInterval = Duration.seconds(3)
  /// The least time from one probe that does not wait, for a refusal of the same peer, to the next.
  package var hastenedInterval = Duration.seconds(30)
  /// Shorter than a request may take: a probe that hangs keeps the next one from finding the peer.
  package var probeTimeout = Duration.seconds(4)
  /// How long requests under way may take once the peer is none any more, or is had elsewhere.
  package var retirement = Duration.seconds(2)
  /// Hand-overs that may wait for the batch that is under way, and their bytes.
  package var waitingMax = 4096
  package var waitingBytesMax = 16 << 20
  /// Whether HTTP/2 is spoken with peers that offer it, else HTTP/1.1: a request costs less there, and each that is
  /// under way takes a connection.
  package var isMultiplexed = true
  /// Connections to one peer over HTTP/1.1, a good part of those that its listener lets a peer have; what comes on top
  /// waits for one.
  package var connectionsMax = 24
  /// Shorter than the listener's idle time-out: we close first, no request meets a closing connection.
  package var idleTimeout = Duration.seconds(60)
  package init() {}

  /// When a peer that does not answer is probed next. Spread by a third, so that processes do not probe in step. A
  /// probe that hung until its time-out has waited already: the next one follows soon.
  /// - Parameters:
  ///   - began: when the last probe did, or when the peer was found away.
  ///   - spread: 0 to 1, drawn at random.
  package func probeDue(
    after began: ContinuousClock.Instant, now: ContinuousClock.Instant, spread: Double
  ) -> ContinuousClock.Instant {
    max(began + probeInterval * (5 + 2 * spread) / 6, now + probeInterval / 6)
  }
}

/// HTTP to one peer under one certificate of theirs and one of ours, on connections of its own.
///
/// Trusts that peer's CAs alone, demands that the host matches, and lets `accepts` look at the leaf before anything is
/// asked. Owns its connections: `retire` closes them after the last request.
final class PeerClient: Sendable {
  private struct Use {
    var requests = 0
    var isRetired = false
    var isShutDown = false

    /// - Returns: whether this is the moment to close the connections.
    mutating func endsNow(evenInUse: Bool = false) -> Bool {
      guard isRetired, !isShutDown, requests == 0 || evenInUse else { return false }
      isShutDown = true
      return true
    }
  }

  private let client: HTTPClient
  /// For batches, of which one is under way at a time and half of a relay's CPU may be spent on: over HTTP/1.1, where a
  /// request costs less.
  private let batches: HTTPClient
  private let base: String
  private let limits: PeerLimits
  private let connections: PeerConnections
  private let use = Mutex(Use())

  /// Whether TLS has proven the peer on some connection of this client: its CA, its host, and what `accepts` looks at.
  var hasProvenPeer: Bool { connections.hasAccepted }

  /// - Parameter accepts: says what is wrong with the peer's leaf, whose chain was verified; called on an event loop.
  /// - Throws: when BoringSSL refuses a certificate.
  init(
    way: PeerWay, authorities: [Certificate], credentials: FederationCredentials, limits: PeerLimits,
    accepts: @escaping @Sendable (Certificate) -> ChainFault? = { _ in nil }
  ) throws {
    base = way.endpoint.text
    self.limits = limits
    var configuration = HTTPClient.Configuration(
      tlsConfiguration: try credentials.clientConfiguration(trusting: authorities), redirectConfiguration: .disallow,
      timeout: .init(connect: TimeAmount(limits.connectTimeout), read: TimeAmount(limits.requestTimeout)),
      decompression: .disabled)
    if let address = way.address { configuration.dnsOverride = [way.endpoint.host: address] }
    configuration.httpVersion = limits.isMultiplexed ? .automatic : .http1Only
    configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = limits.connectionsMax
    configuration.connectionPool.idleTimeout = TimeAmount(limits.idleTimeout)
    // The caller is told at once; the next request tries anew.
    configuration.connectionPool.retryConnectionEstablishment = false
    let connections = PeerConnections(accepts: accepts)
    configuration.http1_1ConnectionDebugInitializer = { connections.opened($0) }
    configuration.http2ConnectionDebugInitializer = { connections.opened($0) }
    self.connections = connections
    client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
    configuration.httpVersion = .http1Only
    batches = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
  }

  deinit {
    // Unless it was retired, which every owner does, the connections have to be closed here.
    if use.withLock({ !$0.isShutDown }) { shutDown() }
  }

  func send(_ request: PeerRequest) async throws(PeerFailure) -> PeerAnswer {
    try begin()
    defer { end() }
    let lostBefore = connections.lostCount
    do {
      return try await perform(request)
    } catch {
      throw failure(error, lostBefore: lostBefore)
    }
  }

  /// Closes the connections once no request is under way. New requests fail with `.retired`.
  func retire() {
    let isLast = use.withLock { use in
      use.isRetired = true
      return use.endsNow()
    }
    if isLast { shutDown() }
  }

  /// As `retire`; what is still under way after `grace` fails with `.cancelled`.
  func retire(within grace: Duration) {
    retire()
    client.eventLoopGroup.any().scheduleTask(in: TimeAmount(grace)) { [self] in
      if use.withLock({ $0.endsNow(evenInUse: true) }) { shutDown() }
    }
  }

  private func begin() throws(PeerFailure) {
    let isRetired = use.withLock { use in
      if !use.isRetired { use.requests += 1 }
      return use.isRetired
    }
    if isRetired { throw .retired }
  }

  private func end() {
    let isLast = use.withLock { use in
      use.requests -= 1
      return use.endsNow()
    }
    if isLast { shutDown() }
  }

  /// The meaning of `error` on these connections.
  /// - Parameter lostBefore: `PeerConnections.lostCount` when the request began.
  private func failure(_ error: any Error, lostBefore: Int) -> PeerFailure {
    if Task.isCancelled || use.withLock({ $0.isShutDown }) { return .cancelled }
    let failure = PeerFailure(error)
    guard failure != .timedOut else { return failure }
    if let fault = connections.fault { return .handshake(reason: "\(fault)") }
    if (error as? HTTPClientError) == .remoteConnectionClosed, connections.lostCount > lostBefore {
      return .unreachable(reason: "the peer closed the connection")
    }
    return failure
  }

  private func perform(_ request: PeerRequest) async throws -> PeerAnswer {
    let patience = min(limits.requestTimeout, request.deadline.map { $0 - .now } ?? limits.requestTimeout)
    let deadline = NIODeadline.now() + TimeAmount(patience)
    var outgoing = HTTPClientRequest(url: base + request.path)
    outgoing.method = request.method
    outgoing.headers.add(name: HTTPField.Name.requestID.rawName, value: "\(request.id)")
    if let tag = request.ifNoneMatch { outgoing.headers.add(name: "If-None-Match", value: tag) }
    if let crossings = request.crossings { outgoing.headers.add(name: PeerRequest.crossingsHeader, value: crossings) }
    if let body = request.body {
      outgoing.headers.add(name: "Content-Type", value: request.contentType)
      outgoing.body = .bytes(ByteBuffer(bytes: body))
    }
    let response = try await (request.isBatch ? batches : client).execute(outgoing, deadline: deadline)
    let body = try await collect(response.body, upTo: request.answerBytesMax, until: deadline)
    return PeerAnswer(
      status: Int(response.status.code), entityTag: response.headers.first(name: "ETag"),
      retryAfterSeconds: response.headers.first(name: "Retry-After").flatMap { Int($0) }, body: body)
  }

  /// The client's own deadline ends with the head of the answer. This one holds for its body: the first part that
  /// comes after the deadline fails the request. If no part comes, the time-out for reading ends it.
  private func collect(
    _ body: HTTPClientResponse.Body, upTo max: Int, until deadline: NIODeadline
  ) async throws -> ByteBuffer {
    var collected = ByteBuffer()
    for try await var part in body {
      guard .now() < deadline else { throw HTTPClientError.deadlineExceeded }
      guard part.readableBytes <= max - collected.readableBytes else { throw NIOTooManyBytesError(maxBytes: max) }
      // Most bodies come in one part, which is not copied.
      if collected.readableBytes == 0 { collected = part } else { collected.writeBuffer(&part) }
    }
    return collected
  }

  private func shutDown() {
    // Requests under way are told that the client has shut down. Nothing else can fail but a second call, which `Use`
    // rules out.
    for client in [client, batches] { client.shutdown { _ in } }
  }
}
