import NIOCore
import NIOHTTP1
import NIOHTTP2
import NIOPosix
import NIOSSL
import NIOTLS

/// A connection that is being made: ends once, with a connection or without. All of it happens on its event loop.
final class PushOpening {
  /// It has failed by then.
  let due: NIODeadline
  private let pool: PushPool
  private var channel: (any Channel)?
  private var isOver = false

  init(of pool: PushPool, due: NIODeadline) {
    self.pool = pool
    self.due = due
  }

  func begin() {
    let (loop, server) = (pool.pools.loop, pool.server)
    guard server.isSecure else { return connect(nil) }
    pool.pools.tls.context(for: loop).assumeIsolated().whenComplete { result in
      switch result {
      case .success(let context): self.connect(context)
      case .failure(let error): self.fail(error)
      }
    }
  }

  func succeed(_ connection: PushHTTP1) {
    guard end() else { return connection.close() }
    pool.opened(connection, by: self)
  }

  func succeed(_ connection: PushHTTP2) {
    guard end() else { return connection.close() }
    pool.opened(connection, by: self)
  }

  func fail(_ error: any Error) {
    guard end() else { return }
    channel?.close(promise: nil)
    pool.failed(self, PushFailure(error))
  }

  private func end() -> Bool {
    defer { isOver = true }
    return !isOver
  }

  private func connect(_ context: NIOSSLContext?) {
    let (loop, server, settings) = (pool.pools.loop, pool.server, pool.pools.settings)
    let bootstrap = ClientBootstrap(group: loop).connectTimeout(TimeAmount(settings.connectTimeout))
    // The address that was checked is taken, though the name may have another one by now.
    let place = settings.addresses[server.host] ?? server.host
    let connecting =
      if let address = try? SocketAddress(ipAddress: place, port: server.port) {
        bootstrap.connect(to: address)
      } else {
        bootstrap.connect(host: place, port: server.port)
      }
    connecting.assumeIsolated().whenComplete { result in
      switch result {
      case .success(let channel): self.connected(channel, context)
      case .failure(let error): self.fail(error)
      }
    }
  }

  private func connected(_ channel: any Channel, _ context: NIOSSLContext?) {
    guard !isOver else { return channel.close(promise: nil) }
    self.channel = channel
    do {
      guard let context else { return try install(isHTTP2: false, on: channel) }
      // An address is no name that could be asked for (RFC 6066, 3).
      let isAddress = (try? SocketAddress(ipAddress: pool.server.host, port: 0)) != nil
      try channel.pipeline.syncOperations.addHandlers([
        NIOSSLClientHandler(context: context, serverHostname: isAddress ? nil : pool.server.host), PushGreeting(self),
      ])
    } catch {
      fail(error)
    }
  }

  fileprivate func install(isHTTP2: Bool, on channel: any Channel) throws {
    let pipeline = channel.pipeline.syncOperations
    try pipeline.addHandler(GatheredWrites())
    if isHTTP2 {
      // Answers to requests that were given up come late.
      var connection = NIOHTTP2Handler.ConnectionConfiguration()
      connection.initialSettings += [HTTP2Setting(parameter: .enablePush, value: 0)]
      connection.maximumRecentlyResetStreams = PushHTTP2.resetStreamsMax
      try pipeline.addHandlers([
        NIOHTTP2Handler(mode: .client, connectionConfiguration: connection), PushHTTP2(pool, self),
      ])
    } else {
      try pipeline.addHTTPClientHandlers(leftOverBytesStrategy: .dropBytes)
      let handler = PushHTTP1(pool)
      try pipeline.addHandler(handler)
      succeed(handler)
    }
  }
}

/// Waits for the end of the handshake, and for the protocol that was agreed on.
private final class PushGreeting: ChannelInboundHandler, RemovableChannelHandler {
  typealias InboundIn = NIOAny

  private let opening: PushOpening

  init(_ opening: PushOpening) { self.opening = opening }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    guard case .handshakeCompleted(let negotiated)? = event as? TLSUserEvent else {
      return context.fireUserInboundEventTriggered(event)
    }
    do {
      try opening.install(isHTTP2: negotiated == "h2", on: context.channel)
      context.pipeline.syncOperations.removeHandler(self, promise: nil)
    } catch {
      opening.fail(error)
    }
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    opening.fail(error)
    context.close(promise: nil)
  }

  func channelInactive(context: ChannelHandlerContext) {
    opening.fail(PushFailure.lost)
    context.fireChannelInactive()
  }
}
