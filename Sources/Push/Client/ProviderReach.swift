import FoundationEssentials
import NIOCore
import NIOPosix
import NIOSSL
import NIOTLS
import RelayHTTP

/// Tries the way to a provider's server as far as TLS: no request, no credentials. For whoever looks for a fault.
package enum ProviderReach {
  /// - Parameters:
  ///   - server: `https://HOST[:PORT]`, perhaps with a path.
  ///   - trust: a PEM file with CAs to be trusted beside the system's.
  /// - Returns: nil when the server was reached, else what went wrong; within `limit`, or soon after it.
  package static func fault(at server: String, trust: String?, within limit: Duration) async -> String? {
    guard let url = URLComponents(string: server), let host = url.host, !host.isEmpty else { return "no address" }
    // NIO ends the process for others.
    let port = url.port ?? 443
    guard (1...65_535).contains(port) else { return "there is no port \(port)" }
    // The address without its brackets.
    let name = host.hasPrefix("[") && host.hasSuffix("]") ? String(host.dropFirst().dropLast()) : host
    do {
      let context = try context(trust)
      try await connect(name, port, context, TimeAmount(limit))
      return nil
    } catch let error as PushCredentialError {
      return error.description
    } catch {
      return fault(error)
    }
  }

  private static func context(_ trust: String?) throws -> NIOSSLContext {
    var tls = TLSConfiguration.makeClientConfiguration()
    tls.minimumTLSVersion = .tlsv12
    tls.applicationProtocols = ["h2", "http/1.1"]
    let authorities = try CredentialFile.authorities(trust)
    if !authorities.isEmpty { tls.additionalTrustRoots = [.certificates(authorities)] }
    return try NIOSSLContext(configuration: tls)
  }

  private static func connect(_ host: String, _ port: Int, _ context: NIOSSLContext, _ limit: TimeAmount) async throws {
    let isAddress = (try? SocketAddress(ipAddress: host, port: port)) != nil
    let loop = MultiThreadedEventLoopGroup.singleton.any()
    let done = loop.makePromise(of: Void.self)
    let timer = loop.scheduleTask(in: limit) { done.fail(PushFailure.timedOut) }
    defer { timer.cancel() }
    let connecting = ClientBootstrap(group: loop).connectTimeout(limit).channelInitializer { channel in
      channel.eventLoop.makeCompletedFuture {
        try channel.pipeline.syncOperations.addHandlers([
          NIOSSLClientHandler(context: context, serverHostname: isAddress ? nil : host), Handshake(done),
        ])
      }
    }.connect(host: host, port: port)
    connecting.whenFailure { done.fail($0) }
    // A server that takes the connection and is silent keeps it no longer than we look.
    done.futureResult.whenComplete { _ in connecting.whenSuccess { $0.close(promise: nil) } }
    try await done.futureResult.get()
  }

  private static func fault(_ error: any Error) -> String {
    switch PushFailure(error) {
    case .unreachable: "no connection: \(FaultWords.of(error))"
    case .handshake: "no TLS, or a certificate that is not trusted: \(FaultWords.of(error))"
    case .lost, .lostToo, .notTaken, .cancelled:
      "the connection ended before TLS was agreed on: \(FaultWords.of(error))"
    case .timedOut: "no answer in time"
    }
  }
}

/// Tells once whether TLS was agreed on.
private final class Handshake: ChannelInboundHandler {
  typealias InboundIn = NIOAny
  private let done: EventLoopPromise<Void>

  init(_ done: EventLoopPromise<Void>) { self.done = done }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    if case .handshakeCompleted? = event as? TLSUserEvent { done.succeed() }
    context.fireUserInboundEventTriggered(event)
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    done.fail(error)
    context.close(promise: nil)
  }

  func channelInactive(context: ChannelHandlerContext) {
    done.fail(PushFailure.lost)
    context.fireChannelInactive()
  }
}
