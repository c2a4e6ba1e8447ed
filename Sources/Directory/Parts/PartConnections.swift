import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL
import RelayWork
import Synchronization

/// Connections to processes that hold parts of the directory: HTTP/1.1, each kept, and with one request under way.
/// Everything happens on one event loop.
///
/// Not those of AsyncHTTPClient: look-ups over parts are mostly requests
/// (docs/decisions/2026-11-28-parts-on-channel-handlers.md).
final class PartConnections: Sendable {
  let loop: any EventLoop
  private let limit: TimeAmount
  private let resolver: HostResolver
  private let secure: SecureContext
  private let idle: NIOLoopBoundBox<[PartAddress: [PartExchange]]>

  /// A batch and the watch ask at once.
  private static let idleMax = 4
  /// Addresses of one name that are tried.
  private static let triesMax = 4

  /// The addresses of a process, and the context of TLS; nil: it is asked in clear.
  private struct Way: Sendable {
    let places: [SocketAddress]
    let secure: NIOSSLContext?
  }

  /// - Parameters:
  ///   - tls: how certificates are looked at.
  ///   - limit: from the request until the whole answer is there.
  init(tls: TLSConfiguration, limit: TimeAmount, resolver: HostResolver) {
    loop = MultiThreadedEventLoopGroup.singleton.next()
    self.limit = limit
    self.resolver = resolver
    secure = SecureContext(tls)
    idle = .makeBoxSendingValue([:], eventLoop: loop)
  }

  deinit {
    loop.execute { [idle] in
      for exchange in idle.value.values.joined() { exchange.close() }
    }
  }

  /// - Throws: `PartFailure`; else what kept the connection from coming about, or ended it.
  func post(_ body: ByteBuffer, _ head: HTTPRequestHead, to address: PartAddress) async throws -> PartAnswer {
    try await loop.flatSubmit { [self] in
      let answer = loop.makePromise(of: PartAnswer.self)
      let deadline = NIODeadline.now() + limit
      if let exchange = kept(address) {
        post(body, head, over: exchange, to: address, until: deadline, answer)
      } else {
        // A name may take longer to be looked up than its addresses to be connected to.
        let timer = loop.scheduleTask(deadline: deadline) { answer.fail(PartFailure.timedOut) }
        connect(to: address).whenComplete { [self] connected in
          timer.cancel()
          switch connected {
          case .failure(let error): answer.fail(error)
          case .success(let exchange) where deadline <= .now():
            exchange.value.close()
            answer.fail(PartFailure.timedOut)
          case .success(let exchange): post(body, head, over: exchange.value, to: address, until: deadline, answer)
          }
        }
      }
      return answer.futureResult
    }.get()
  }

  private func post(
    _ body: ByteBuffer, _ head: HTTPRequestHead, over exchange: PartExchange, to address: PartAddress,
    until deadline: NIODeadline, _ answer: EventLoopPromise<PartAnswer>
  ) {
    exchange.post(body, head, until: deadline, answer)
    answer.futureResult.assumeIsolated().whenSuccess { [self] _ in keep(exchange, to: address) }
  }

  private func kept(_ address: PartAddress) -> PartExchange? {
    while let exchange = idle.value[address]?.popLast() {
      if exchange.isReusable { return exchange }
    }
    return nil
  }

  private func keep(_ exchange: PartExchange, to address: PartAddress) {
    guard exchange.isReusable else { return }
    guard idle.value[address, default: []].count < Self.idleMax else { return exchange.close() }
    idle.value[address, default: []].append(exchange)
  }

  // MARK: New connections

  private func connect(to address: PartAddress) -> EventLoopFuture<NIOLoopBound<PartExchange>> {
    loop.makeFutureWithTask { [self] in try await way(to: address) }.flatMap { [self] way in
      connect(to: way.places[...], of: address, way)
    }
  }

  /// Looks the name up beside the event loop, and reads files there.
  private func way(to address: PartAddress) async throws -> Way {
    let context = address.isSecure ? try secure.context() : nil
    if let literal = address.literal { return Way(places: [literal], secure: context) }
    let found = await resolver.addresses(address.host, .nanoseconds(limit.nanoseconds)) ?? []
    guard !found.isEmpty else { throw PartFailure.unreachable("its name has no address, or none in time") }
    return Way(
      places: try found.prefix(Self.triesMax).map { try SocketAddress(ipAddress: $0, port: address.port) },
      secure: context)
  }

  /// One after the other, each with its share of the time.
  private func connect(
    to places: ArraySlice<SocketAddress>, of address: PartAddress, _ way: Way
  ) -> EventLoopFuture<NIOLoopBound<PartExchange>> {
    guard let place = places.first else { return loop.makeFailedFuture(PartFailure.connectionEnded) }
    let rest = places.dropFirst()
    return ClientBootstrap(group: loop)
      .connectTimeout(.nanoseconds(limit.nanoseconds / Int64(way.places.count)))
      .channelOption(.socketOption(.tcp_nodelay), value: 1)
      .channelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          let pipeline = channel.pipeline.syncOperations
          if let secure = way.secure {
            let name = address.literal == nil ? address.host : nil
            try pipeline.addHandler(NIOSSLClientHandler(context: secure, serverHostname: name))
          }
          try pipeline.addHTTPClientHandlers(enableOutboundHeaderValidation: false)
          try pipeline.addHandler(NIOHTTPClientResponseAggregator(maxContentLength: PartAnswers.bytesMax))
          try pipeline.addHandler(PartExchange())
        }
      }
      .connect(to: place)
      .flatMapThrowing { [loop] channel in
        NIOLoopBound(try channel.pipeline.syncOperations.handler(type: PartExchange.self), eventLoop: loop)
      }
      .flatMapError { [self] error in
        rest.isEmpty ? loop.makeFailedFuture(error) : connect(to: rest, of: address, way)
      }
  }
}

/// The context of TLS for all connections: made when it is first needed.
private final class SecureContext: Sendable {
  private let configuration: TLSConfiguration
  private let made = Mutex<NIOSSLContext?>(nil)

  init(_ configuration: TLSConfiguration) { self.configuration = configuration }

  /// Reads files. - Throws: when they cannot be used.
  func context() throws -> NIOSSLContext {
    try made.withLock { made in
      if let made { return made }
      let context = try NIOSSLContext(configuration: configuration)
      made = context
      return context
    }
  }
}

extension PartAddress {
  /// nil for a name. NIOSSL takes the address that a certificate is to be for from the connection.
  fileprivate var literal: SocketAddress? {
    do { return try SocketAddress(ipAddress: host, port: port) } catch { return nil }
  }
}
