import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL

/// Connections to processes that hold parts of the directory: HTTP/1.1, each kept, and with one request under way.
/// Everything happens on one event loop.
///
/// Not those of AsyncHTTPClient: look-ups over parts are mostly requests
/// (docs/decisions/2026-11-28-parts-on-channel-handlers.md).
final class PartConnections: Sendable {
  let loop: any EventLoop
  private let tls: TLSConfiguration
  private let limit: TimeAmount
  private let state: NIOLoopBoundBox<State>

  private struct State {
    var idle: [PartAddress: [PartExchange]] = [:]
    /// Made for the first connection over TLS.
    var context: NIOSSLContext?
  }

  /// A batch and the watch ask at once.
  private static let idleMax = 4

  /// - Parameters:
  ///   - tls: how certificates are looked at.
  ///   - limit: from the request until the whole answer is there.
  init(tls: TLSConfiguration, limit: TimeAmount) {
    loop = MultiThreadedEventLoopGroup.singleton.next()
    self.tls = tls
    self.limit = limit
    state = .makeBoxSendingValue(State(), eventLoop: loop)
  }

  deinit {
    loop.execute { [state] in
      for exchange in state.value.idle.values.joined() { exchange.close() }
    }
  }

  /// - Throws: `PartFailure`; else what kept the connection from coming about, or ended it.
  func post(_ body: ByteBuffer, _ head: HTTPRequestHead, to address: PartAddress) async throws -> PartAnswer {
    try await loop.flatSubmit { [self] in
      let answer = loop.makePromise(of: PartAnswer.self)
      let deadline = NIODeadline.now() + limit
      // A name may take longer to be looked up than its addresses to be connected to.
      let timer = loop.scheduleTask(deadline: deadline) { answer.fail(PartFailure.timedOut) }
      connection(to: address).whenComplete { [self] connected in
        timer.cancel()
        switch connected {
        case .failure(let error): answer.fail(error)
        case .success(let exchange) where deadline <= .now():
          exchange.value.close()
          answer.fail(PartFailure.timedOut)
        case .success(let exchange):
          exchange.value.post(body, head, until: deadline, answer)
          answer.futureResult.whenSuccess { [self] _ in keep(exchange.value, to: address) }
        }
      }
      return answer.futureResult
    }.get()
  }

  private func keep(_ exchange: PartExchange, to address: PartAddress) {
    guard exchange.isReusable else { return }
    guard state.value.idle[address, default: []].count < Self.idleMax else { return exchange.close() }
    state.value.idle[address, default: []].append(exchange)
  }

  private func connection(to address: PartAddress) -> EventLoopFuture<NIOLoopBound<PartExchange>> {
    while let exchange = state.value.idle[address]?.popLast() {
      if exchange.isReusable { return loop.makeSucceededFuture(NIOLoopBound(exchange, eventLoop: loop)) }
    }
    let secure: NIOSSLContext?
    do {
      secure = address.isSecure ? try secureContext() : nil
    } catch {
      return loop.makeFailedFuture(error)
    }
    return ClientBootstrap(group: loop)
      .connectTimeout(limit)
      .channelOption(.socketOption(.tcp_nodelay), value: 1)
      .channelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          let pipeline = channel.pipeline.syncOperations
          if let secure {
            try pipeline.addHandler(NIOSSLClientHandler(context: secure, serverHostname: address.serverName))
          }
          try pipeline.addHTTPClientHandlers(enableOutboundHeaderValidation: false)
          try pipeline.addHandler(NIOHTTPClientResponseAggregator(maxContentLength: PartAnswers.bytesMax))
          try pipeline.addHandler(PartExchange())
        }
      }
      .connect(host: address.host, port: address.port)
      .flatMapThrowing { [loop] channel in
        NIOLoopBound(try channel.pipeline.syncOperations.handler(type: PartExchange.self), eventLoop: loop)
      }
  }

  private func secureContext() throws -> NIOSSLContext {
    if let context = state.value.context { return context }
    let context = try NIOSSLContext(configuration: tls)
    state.value.context = context
    return context
  }
}

extension PartAddress {
  /// What the certificate is for; nil for an address, which NIOSSL takes from the connection.
  fileprivate var serverName: String? {
    do {
      _ = try SocketAddress(ipAddress: host, port: port)
      return nil
    } catch {
      return host
    }
  }
}
