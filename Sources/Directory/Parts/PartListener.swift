import HTTPTypes
import Hummingbird
import HummingbirdCore
import HummingbirdHTTP2
package import Logging
import Metrics
import NIOCore
package import NIOSSL
package import RelayCore
package import RelayHTTP
import RelayMetrics
import ServiceLifecycle

/// The listener of a process that holds a part of the directory, for the operator's own processes that ask for it:
/// HTTP/1.1, or with certificates TLS.
package struct PartListener: Service {
  private let host: String
  private let port: Int
  private let responder: PartResponder
  private let tls: (@Sendable () -> NIOSSLContext)?
  private let drain: DrainState
  private let logger: Logger
  private let onListening: @Sendable (Int) async -> Void

  /// Processes that ask keep their connections, and look every two seconds.
  private static let idleTimeout = TimeAmount.seconds(90)
  private static let handshakeTimeout = TimeAmount.seconds(10)
  private static let connectionsMax = 4096

  /// - Parameters:
  ///   - port: 0 takes any free one; `onListening` tells which.
  ///   - key: that all processes of the store share (`ServerKeyName.directoryParts`).
  ///   - tls: the certificates in force; nil: HTTP as it is.
  ///   - drain: whether the process is about to stop.
  ///   - onListening: called once with the bound port when requests are accepted.
  package init(
    host: String, port: Int, view: DirectoryView, key: SecretBytes, tls: (@Sendable () -> NIOSSLContext)?,
    drain: DrainState, logger: Logger, onListening: @escaping @Sendable (Int) async -> Void = { _ in }
  ) {
    self.host = host
    self.port = port
    responder = PartResponder(view, key: key)
    self.tls = tls
    self.drain = drain
    self.logger = logger
    self.onListening = onListening
  }

  package func run() async throws {
    try await Application(
      responder: responder, server: server,
      configuration: ApplicationConfiguration(
        address: .hostname(host, port: port), serverName: nil,
        availableConnectionsDelegate: MaximumAvailableConnections(Self.connectionsMax)),
      onServerRunning: { [onListening, port] channel in await onListening(channel.localAddress?.port ?? port) },
      logger: logger
    ).run()
  }

  private var server: HTTPServerBuilder {
    let (tls, drain) = (tls, drain)
    return HTTPServerBuilder { responder in
      let http1 = EdgeHTTP1(responder: responder, idleTimeout: Self.idleTimeout, drain: drain)
      guard let tls else { return ClaimedChannel(LoopChannel(http1)) }
      return ClaimedChannel(
        LoopChannel(
          ALPNChannel(
            tls: { _, _ in NIOSSLServerHandler(context: tls()) }, handshakeTimeout: Self.handshakeTimeout, http1: http1,
            http2: EdgeHTTP2.channel(responder: responder, idleTimeout: .seconds(90), stalledTimeout: .seconds(30)))))
    }
  }
}

/// Answers processes that ask for a part. Their requests are many and alike: no router stands before it.
struct PartResponder: HTTPResponder {
  typealias Context = BasicRequestContext

  private let lookUp: PartLookUp
  private let held: Gauge
  private let authorization: [UInt8]

  init(_ view: DirectoryView, key: SecretBytes) {
    lookUp = PartLookUp(view)
    held = RelayMetric.parts.entries.gauge(PartLabel(value: view.part.text))
    authorization = Array(PartClient.authorization(by: key).utf8)
  }

  @Sendable func respond(to request: Request, context: BasicRequestContext) async throws -> Response {
    guard request.uri.path == PartClient.path else { return Response(status: .notFound) }
    let given = Array((request.headers[.authorization] ?? "").utf8)
    guard constantTimeEquals(authorization, given) else { return Response(status: .unauthorized) }
    guard request.method == .post else { return Response(status: .methodNotAllowed) }
    // A caller that goes away meanwhile is told nothing.
    let body = try await request.body.collect(upTo: PartQuestions.bytesMax)
    guard let questions = PartQuestions(body) else { return Response(status: .badRequest) }
    do throws(PartLookUp.Refusal) {
      let answers = try lookUp.answers(to: questions)
      held.record(answers.entries)
      return Response(
        status: .ok, headers: [.contentType: "application/octet-stream"],
        body: ResponseBody(byteBuffer: answers.bytes))
    } catch {
      return Response(status: error == .otherPart ? .conflict : .serviceUnavailable)
    }
  }
}
