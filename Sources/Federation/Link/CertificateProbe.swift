import NIOCore
import NIOPosix
import NIOSSL
import RelayHTTP
import X509

/// Looks at the certificates that a relay presents, and hangs up before anything of ours is shown.
enum CertificateProbe {
  /// As `presentedChain(by:timeout:)`, by the first of `ways`, of which there is one at least, that somebody answers
  /// at.
  static func presentedChain(
    byOneOf ways: [PeerWay], timeout: Duration
  ) async throws(PeerFailure) -> ([Certificate], PeerWay) {
    var failure = PeerFailure.unreachable(reason: "no address")
    for way in ways {
      do throws(PeerFailure) {
        return (try await presentedChain(by: way, timeout: timeout), way)
      } catch {
        failure = error
      }
    }
    throw failure
  }

  /// - Returns: the presented chain, leaf first, not empty; nothing about it is checked.
  static func presentedChain(by way: PeerWay, timeout: Duration) async throws(PeerFailure) -> [Certificate] {
    let endpoint = way.endpoint
    do {
      var configuration = TLSConfiguration.makeClientConfiguration()
      configuration.minimumTLSVersion = .tlsv13
      configuration.trustRoots = .certificates([])
      configuration.applicationProtocols = ["h2", "http/1.1"]
      let context = try NIOSSLContext(configuration: configuration)
      let captured = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
        .connectTimeout(TimeAmount(timeout))
        .connect(host: way.host, port: endpoint.port) { channel in
          channel.eventLoop.makeCompletedFuture {
            let promise = channel.eventLoop.makePromise(of: [NIOSSLCertificate].self)
            let tls = try NIOSSLClientHandler(
              context: context, serverHostname: endpoint.isIPAddress ? nil : endpoint.host,
              customVerificationCallback: { presented, verdict in
                promise.succeed(presented)
                verdict.succeed(NIOSSLVerificationResult.failed)
              })
            try channel.pipeline.syncOperations.addHandlers([tls, ProbeHandler(promise: promise)])
            let timer = channel.eventLoop.scheduleTask(in: TimeAmount(timeout)) {
              promise.fail(PeerFailure.unreachable(reason: "nobody answers the TLS handshake"))
            }
            promise.futureResult.whenComplete { _ in
              timer.cancel()
              channel.close(promise: nil)
            }
            return promise.futureResult
          }
        }
      let presented = try await captured.get()
      guard !presented.isEmpty else { throw PeerFailure.handshake(reason: "it presented no certificate") }
      return try presented.map { try Certificate($0) }
    } catch {
      throw PeerFailure(error)
    }
  }
}

/// Fails the promise when the connection ends before the certificates came. Failing it twice changes nothing.
private final class ProbeHandler: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer

  private let promise: EventLoopPromise<[NIOSSLCertificate]>

  init(promise: EventLoopPromise<[NIOSSLCertificate]>) { self.promise = promise }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    promise.fail(PeerFailure(error))
    context.close(promise: nil)
  }

  func channelInactive(context: ChannelHandlerContext) {
    promise.fail(PeerFailure.unreachable(reason: "the connection was closed in the handshake"))
    context.fireChannelInactive()
  }
}
