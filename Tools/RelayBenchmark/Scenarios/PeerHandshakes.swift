import NIOCore
import NIOPosix
import NIOSSL

/// Connections to a listener that asks for a certificate: a full TLS 1.3 handshake each, and a request, since the
/// server refuses a certificate only after the client's last word of the handshake.
struct PeerHandshakes: Sendable {
  private static let patience = TimeAmount.seconds(60)

  private let port: Int
  let context: NIOSSLContext

  /// - Parameters:
  ///   - server: the folder with the identity that the listener shows.
  ///   - identity: the folder with the certificate to show; nil for none.
  init(port: Int, trusting server: String, presenting identity: String?) throws {
    self.port = port
    var configuration = TLSConfiguration.makeClientConfiguration()
    configuration.trustRoots = .file(server + "/ca.pem")
    if let identity {
      configuration.certificateChain = try NIOSSLCertificate.fromPEMFile(identity + "/leaf.pem")
        .map { .certificate($0) }
      configuration.privateKey = .privateKey(try NIOSSLPrivateKey(file: identity + "/leaf.key", format: .pem))
    }
    context = try NIOSSLContext(configuration: configuration)
  }

  /// - Returns: the time from the attempt to connect to the first byte of the answer.
  func shakeHands() async throws -> Duration {
    let start = ContinuousClock.now
    let answered = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .connectTimeout(Self.patience)
      .connect(host: "127.0.0.1", port: port) { channel in
        channel.eventLoop.makeCompletedFuture {
          let promise = channel.eventLoop.makePromise(of: Bool.self)
          try channel.pipeline.syncOperations.addHandlers([
            try NIOSSLClientHandler(context: context, serverHostname: nil), FirstAnswer(promise),
          ])
          channel.eventLoop.scheduleTask(in: Self.patience) { channel.close(promise: nil) }
          return promise.futureResult
        }
      }
    guard try await answered.get() else { throw BenchmarkFailure("the server on port \(port) refused a handshake") }
    return .now - start
  }
}

/// Asks, and tells whether an answer began.
private final class FirstAnswer: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  private let promise: EventLoopPromise<Bool>

  init(_ promise: EventLoopPromise<Bool>) { self.promise = promise }

  func channelActive(context: ChannelHandlerContext) {
    // TLS keeps it until the handshake is over.
    let request = ByteBuffer(string: "GET /v1/federation/peering HTTP/1.1\r\nHost: alpha\r\n\r\n")
    context.writeAndFlush(wrapOutboundOut(request), promise: nil)
    context.fireChannelActive()
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    // `openssl s_server` answers as HTTP 1.0.
    let words = String(buffer: unwrapInboundIn(data)).split(separator: " ", maxSplits: 2)
    promise.succeed(words.count == 3 && words[0].hasPrefix("HTTP/1.") && words[1] == "200")
    context.close(promise: nil)
  }

  func channelInactive(context: ChannelHandlerContext) {
    promise.succeed(false)
    context.fireChannelInactive()
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}
