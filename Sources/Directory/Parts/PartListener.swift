import NIOCore
import NIOExtras
import NIOHTTP1
import NIOPosix
package import NIOSSL
package import RelayCore
package import RelayHTTP
import ServiceLifecycle
import Synchronization

/// The listener of a process that holds a part of the directory, for the operator's own processes that ask for it:
/// HTTP/1.1, or with certificates TLS.
///
/// Channel handlers alone, on the event loop that reads: a request costs more than the look-ups in it
/// (docs/decisions/2026-11-28-parts-on-channel-handlers.md).
package struct PartListener: Service {
  private let host: String
  private let port: Int
  private let responder: PartResponder
  private let tls: (@Sendable () -> NIOSSLContext)?
  private let onListening: @Sendable (Int) async -> Void

  private static let connectionsMax = 4096

  /// - Parameters:
  ///   - port: 0 takes any free one; `onListening` tells which.
  ///   - key: that all processes of the store share (`ServerKeyName.directoryParts`).
  ///   - tls: the certificates in force, for HTTP/1.1 alone; nil: HTTP as it is.
  ///   - drain: whether the process is about to stop.
  ///   - onListening: called once with the bound port when requests are accepted.
  package init(
    host: String, port: Int, view: DirectoryView, key: SecretBytes, tls: (@Sendable () -> NIOSSLContext)?,
    drain: DrainState, onListening: @escaping @Sendable (Int) async -> Void = { _ in }
  ) {
    self.host = host
    self.port = port
    responder = PartResponder(view, key: key, drain: drain)
    self.tls = tls
    self.onListening = onListening
  }

  /// Until the process stops, or the task is cancelled: then connections end behind the answer that is under way.
  package func run() async throws {
    let group = MultiThreadedEventLoopGroup.singleton
    let quiescing = ServerQuiescingHelper(group: group)
    let channel = try await bootstrap(group, quiescing).bind(host: host, port: port).get()
    await onListening(channel.localAddress?.port ?? port)
    try await withTaskCancellationHandler {
      try await withGracefulShutdownHandler {
        try await channel.closeFuture.get()
      } onGracefulShutdown: {
        quiescing.initiateShutdown(promise: nil)
      }
    } onCancel: {
      quiescing.initiateShutdown(promise: nil)
    }
    let ended = channel.eventLoop.makePromise(of: Void.self)
    quiescing.initiateShutdown(promise: ended)
    try await ended.futureResult.get()
  }

  private func bootstrap(_ group: any EventLoopGroup, _ quiescing: ServerQuiescingHelper) -> ServerBootstrap {
    let places = ConnectionPlaces(Self.connectionsMax)
    return ServerBootstrap(group: group)
      .serverChannelOption(.backlog, value: 256)
      .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
      .serverChannelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.addHandler(quiescing.makeServerChannelHandler(channel: channel))
        }
      }
      .childChannelOption(.socketOption(.tcp_nodelay), value: 1)
      .childChannelInitializer { [tls, responder] channel in
        guard places.take(until: channel.closeFuture) else {
          return channel.eventLoop.makeFailedFuture(NoPlace())
        }
        return channel.eventLoop.makeCompletedFuture {
          let pipeline = channel.pipeline.syncOperations
          if let tls { try pipeline.addHandler(NIOSSLServerHandler(context: tls())) }
          let requests = PartRequests(responder)
          try pipeline.addHandlers([PartBytes(requests), HTTPResponseEncoder(), Self.decoder])
          try pipeline.addHandlers([HTTPServerProtocolErrorHandler(), requests])
        }
      }
  }

  /// The codec, with narrow bounds: heads of those who ask are short.
  private static var decoder: ByteToMessageHandler<HTTPRequestDecoder> {
    var limits = NIOHTTPDecoderLimitConfiguration()
    (limits.maxHeaderFieldSize, limits.maxHeaderListSize, limits.maxHeaderFieldCount) = (4096, 8192, 32)
    return ByteToMessageHandler(HTTPRequestDecoder(limitConfiguration: limits), maximumBufferSize: 128 << 10)
  }
}

/// All connections of the listener are taken.
private struct NoPlace: Error {}

/// Bounds the connections of a listener.
private final class ConnectionPlaces: Sendable {
  private let max: Int
  private let taken = Atomic(0)

  init(_ max: Int) { self.max = max }

  /// - Returns: false when there is no place.
  func take(until end: EventLoopFuture<Void>) -> Bool {
    guard taken.wrappingAdd(1, ordering: .relaxed).newValue <= max else {
      taken.wrappingSubtract(1, ordering: .relaxed)
      return false
    }
    end.whenComplete { [self] _ in taken.wrappingSubtract(1, ordering: .relaxed) }
    return true
  }
}
