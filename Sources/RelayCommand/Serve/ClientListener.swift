import Hummingbird
import HummingbirdCore
import HummingbirdHTTP2
import Logging
import NIOCore
import NIOSSL
import Relay
import RelayConfiguration
import RelayHTTP
import ServiceLifecycle

/// The clients' listener: HTTP/1.1, or with certificates TLS with HTTP/2 and HTTP/1.1, reloaded when the files change.
struct ClientListener {
  let services: [any Service]

  /// - Throws: `CommandFailure` when certificate and key cannot be used.
  init(_ settings: RelayConfiguration.Client, router: Router<ClientContext>, state: ListenerState, logger: Logger)
    throws
  {
    let server: HTTPServerBuilder
    var services: [any Service] = []
    if let tls = settings.tls {
      let context = try Self.context(tls, logger: logger)
      services.append(context)
      server = Self.secure(context)
    } else {
      server = HTTPServerBuilder {
        ClaimedChannel(HTTP1Channel(responder: $0, configuration: Self.http1))
      }
    }
    let application = Application(
      router: router, server: server,
      configuration: ApplicationConfiguration(
        address: .hostname(settings.host, port: settings.port), serverName: nil, backlog: Self.backlog,
        availableConnectionsDelegate: MaximumAvailableConnections(Self.connectionsMax)),
      onServerRunning: { channel in
        state.began()
        logger.notice(
          "serving clients",
          metadata: [
            "address": "\(settings.host):\(channel.localAddress?.port ?? settings.port)",
            "tls": "\(settings.tls != nil)",
          ])
      },
      logger: logger)
    services.append(Listening("client", settings.host, settings.port, application))
    self.services = services
  }

  /// Open connections of one process; more wait in the kernel's backlog.
  private static let connectionsMax = 20_000
  private static let backlog = 1024
  /// A connection without a request for so long is closed; clients come back.
  private static let idleTimeout = TimeAmount.seconds(90)
  private static let handshakeTimeout = TimeAmount.seconds(10)
  /// A request whose sender stops in its midst.
  private static let stalledRequestTimeout = TimeAmount.seconds(30)
  private static var http1: HTTP1Channel.Configuration {
    .init(
      idleTimeout: idleTimeout,
      httpDecoderConfiguration: .init(
        maxHeaderFieldSize: 16 << 10, maxHeaderListSize: 32 << 10, maxHeaderFieldCount: 100))
  }

  private static func context(_ tls: RelayConfiguration.TLS, logger: Logger) throws
    -> Reloading<NIOSSLContext, CommandFailure>
  {
    try Reloading(files: [tls.certificate, tls.key], logger: logger) { () throws(CommandFailure) in
      do {
        let chain = try NIOSSLCertificate.fromPEMFile(tls.certificate)
        let key = try NIOSSLPrivateKey(file: tls.key, format: .pem)
        var configuration = TLSConfiguration.makeServerConfiguration(
          certificateChain: chain.map { .certificate($0) }, privateKey: .privateKey(key))
        configuration.minimumTLSVersion = .tlsv12
        configuration.applicationProtocols = ["h2", "http/1.1"]
        return try NIOSSLContext(configuration: configuration)
      } catch {
        throw CommandFailure(
          "client.tls.certificate (\(tls.certificate)) and client.tls.key (\(tls.key)) cannot be used: \(error). "
            + "Both must be PEM, readable, and belong together.")
      }
    }
  }

  private static func secure(_ context: Reloading<NIOSSLContext, CommandFailure>) -> HTTPServerBuilder {
    HTTPServerBuilder { responder in
      ClaimedChannel(
        ALPNChannel(
          tls: { _, _ in NIOSSLServerHandler(context: context.current) }, handshakeTimeout: handshakeTimeout,
          http1: HTTP1Channel(responder: responder, configuration: http1),
          http2: HTTP2Channel(
            responder: responder,
            configuration: .init(
              idleTimeout: .seconds(90), streamConfiguration: .init(idleTimeout: stalledRequestTimeout)))))
    }
  }
}
