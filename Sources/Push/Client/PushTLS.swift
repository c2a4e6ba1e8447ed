import NIOCore
import NIOPosix
import NIOSSL
import Synchronization

/// The TLS context of a client's connections, made once: it reads all of the system's authorities.
final class PushTLS: Sendable {
  private let configuration: TLSConfiguration
  private let made = Mutex<NIOSSLContext?>(nil)

  init(_ settings: PushClient.Settings) {
    var tls = TLSConfiguration.makeClientConfiguration()
    tls.minimumTLSVersion = .tlsv12
    tls.applicationProtocols = settings.speaksHTTP2 ? ["h2", "http/1.1"] : ["http/1.1"]
    if !settings.trust.isEmpty { tls.additionalTrustRoots = [.certificates(settings.trust)] }
    if let key = settings.key {
      tls.certificateChain = settings.chain.map { .certificate($0) }
      tls.privateKey = .privateKey(key)
    }
    configuration = tls
  }

  /// Made on a thread for blocking work, the first time.
  func context(for loop: any EventLoop) -> EventLoopFuture<NIOSSLContext> {
    if let context = made.withLock({ $0 }) { return loop.makeSucceededFuture(context) }
    return NIOThreadPool.singleton.runIfActive(eventLoop: loop) { [self] in try make() }
  }

  private func make() throws -> NIOSSLContext {
    try made.withLock { made in
      if let made { return made }
      let context = try NIOSSLContext(configuration: configuration)
      made = context
      return context
    }
  }
}
