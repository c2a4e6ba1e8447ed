import ArgumentParser
import NIOCore
import NIOHTTP1
import NIOHTTP2
import NIOPosix
import NIOSSL
import Synchronization

/// `relay-bench push-stand-in`: providers that take every push, as fast as they can and without looking at it; a
/// process of its own, so that its CPU time is not the relay's.
struct PushStandIn: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "push-stand-in", abstract: "Takes pushes, for relay-bench --push.", shouldDisplay: false)

  @Option var certificate: String
  @Option var key: String
  /// Over TLS and HTTP/2.
  @Option var apns: Int
  /// FCM, its tokens, and WebPush, over TLS and HTTP/1.1.
  @Option var https: Int
  /// Plain HTTP: any request is answered with how many pushes were taken, tokens left out.
  @Option var control: Int
  /// Each push is answered so many milliseconds late; 0 is at once.
  @Option var pauseMillis: Int64 = 0

  func run() async throws {
    let counter = PushCounter()
    let pause = TimeAmount.milliseconds(pauseMillis)
    let http2 = try await listen(on: apns, tls: try context("h2")) { channel in
      let pipeline = channel.pipeline.syncOperations
      try pipeline.addHandlers([
        NIOHTTP2Handler(
          mode: .server,
          initialSettings: nioDefaultSettings + [HTTP2Setting(parameter: .maxConcurrentStreams, value: 1000)]),
        StandInHTTP2(counter, pause: pause),
      ])
    }
    let http1 = try await listen(on: https, tls: try context("http/1.1")) { channel in
      let pipeline = channel.pipeline.syncOperations
      try pipeline.configureHTTPServerPipeline(withErrorHandling: true)
      try pipeline.addHandler(StandInHTTP1(counter, pause: pause))
    }
    let counting = try await listen(on: control, tls: nil) { channel in
      let pipeline = channel.pipeline.syncOperations
      try pipeline.configureHTTPServerPipeline(withErrorHandling: true)
      try pipeline.addHandler(StandInCount(counter))
    }
    // Until it is stopped by a signal.
    for listener in [http2, http1, counting] { try await listener.closeFuture.get() }
  }

  private func context(_ application: String) throws -> NIOSSLContext {
    var tls = TLSConfiguration.makeServerConfiguration(
      certificateChain: try NIOSSLCertificate.fromPEMFile(certificate).map { .certificate($0) },
      privateKey: .privateKey(try NIOSSLPrivateKey(file: key, format: .pem)))
    tls.applicationProtocols = [application]
    return try NIOSSLContext(configuration: tls)
  }

  private func listen(
    on port: Int, tls: NIOSSLContext?, _ handlers: @escaping @Sendable (any Channel) throws -> Void
  ) async throws -> any Channel {
    try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .serverChannelOption(.backlog, value: 1024)
      .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
      .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
      .childChannelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          if let tls { try channel.pipeline.syncOperations.addHandler(NIOSSLServerHandler(context: tls)) }
          try handlers(channel)
        }
      }
      .bind(host: "127.0.0.1", port: port).get()
  }
}

/// Pushes taken so far.
final class PushCounter: Sendable {
  private let count = Atomic(0)
  var value: Int { count.load(ordering: .relaxed) }
  func add() { count.add(1, ordering: .relaxed) }
}

extension EventLoop {
  /// Runs `body` on this loop, which is the current one, when `pause` has passed.
  func late(_ pause: TimeAmount, _ body: @escaping () -> Void) {
    guard pause > .zero else { return body() }
    let bound = NIOLoopBound(body, eventLoop: self)
    scheduleTask(in: pause) { bound.value() }
  }
}
