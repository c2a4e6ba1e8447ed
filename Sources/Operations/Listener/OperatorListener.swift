import HTTPTypes
package import Hummingbird
package import HummingbirdCore
package import Logging
package import NIOCore
import RelayHTTP

/// The listener for the operator's own tools: `/livez`, `/readyz`, `/metrics` and `/drain`, the operator API, and the
/// console.
///
/// A service: `run()` listens until it is cancelled or shut down gracefully. Bind it where only the operator can reach
/// it: only the API and the console ask for credentials.
package struct OperatorListener: ApplicationProtocol {
  package typealias Responder = RouterResponder<OperatorContext>

  package let host: String
  /// 0 takes any free one; `onRunning` tells which.
  package let port: Int
  package let logger: Logger
  package let eventLoopGroup: any EventLoopGroup
  private let readiness: Readiness
  private let registry: PrometheusRegistry
  private let drain: DrainControl
  private let api: OperatorAPI
  private let console: Console
  private let onRunning: @Sendable (Int) async -> Void

  /// - Parameters:
  ///   - relay: the relay's name, for people.
  ///   - onRunning: called once with the bound port when requests are accepted.
  package init(
    relay: String, host: String, port: Int, readiness: Readiness, registry: PrometheusRegistry, drain: DrainControl,
    api: OperatorAPI,
    eventLoopGroup: any EventLoopGroup, logger: Logger, onRunning: @escaping @Sendable (Int) async -> Void = { _ in }
  ) throws {
    self.host = host
    self.port = port
    self.readiness = readiness
    self.registry = registry
    self.drain = drain
    self.api = api
    console = try Console(
      relay: relay, look: ConsoleLook(name: relay, readiness: readiness, registry: registry),
      sessions: ConsoleSessions(tokens: api.tokens), control: drain, parts: api.parts)
    self.eventLoopGroup = eventLoopGroup
    self.logger = logger
    self.onRunning = onRunning
  }

  package var configuration: ApplicationConfiguration {
    ApplicationConfiguration(address: .hostname(host, port: port))
  }

  package var server: HTTPServerBuilder {
    HTTPServerBuilder { EdgeHTTP1(responder: $0, idleTimeout: .seconds(60)) }
  }

  package var responder: Responder {
    // Probes may ask by HEAD: the same head, and nothing behind it.
    let router = Router(context: OperatorContext.self, options: .autoGenerateHeadEndpoints)
    router.get("/livez") { _, _ in plain("ok\n") }
    router.get("/readyz") { [readiness] _, _ in answer(await readiness.reasons()) }
    // As the first servers of the protocol had them (reference 3.12).
    router.get("/ping") { _, _ in plain("pong\n") }
    router.get("/healthcheck") { [readiness] _, _ in healthcheck(await readiness.outcomes()) }
    router.get("/metrics") { [registry] _, _ in plain(registry.exposition(), type: Exposition.contentType) }
    DrainRoutes(control: drain).add(to: router)
    api.addRoutes(to: router)
    console.addRoutes(to: router)
    return router.buildResponder()
  }

  package func onServerRunning(_ channel: any Channel) async { await onRunning(channel.localAddress?.port ?? port) }
}

private func plain(_ text: String, type: String = "text/plain; charset=utf-8") -> Response {
  Response(status: .ok, headers: [.contentType: type], body: ResponseBody(byteBuffer: ByteBuffer(string: text)))
}

/// `{"ready":true}`, or 503 and `{"ready":false,"reasons":{"NAME":"REASON"}}` with the names in order.
private func answer(_ reasons: [String: String]) -> Response {
  let pairs = reasons.sorted { $0.key < $1.key }.map { "\(JSONText.quoted($0)):\(JSONText.quoted($1))" }
  let text = pairs.isEmpty ? #"{"ready":true}"# : #"{"ready":false,"reasons":{\#(pairs.joined(separator: ","))}}"#
  return Response(
    status: pairs.isEmpty ? .ok : .serviceUnavailable, headers: [.contentType: "application/json"],
    body: ResponseBody(byteBuffer: ByteBuffer(string: text)))
}

/// `{"NAME":{"healthy":true},"NAME":{"healthy":false,"message":"REASON"}}` with the names in order; 500 where one is
/// not healthy, 501 where nothing is looked at.
private func healthcheck(_ outcomes: [String: String?]) -> Response {
  let checks = outcomes.sorted { $0.key < $1.key }.map { name, reason in
    let message = reason.map { #"false,"message":\#(JSONText.quoted($0))"# } ?? "true"
    return #"\#(JSONText.quoted(name)):{"healthy":\#(message)}"#
  }
  let isHealthy = outcomes.values.allSatisfy { $0 == nil }
  return Response(
    status: outcomes.isEmpty ? .notImplemented : isHealthy ? .ok : .internalServerError,
    headers: [.contentType: "application/json"],
    body: ResponseBody(byteBuffer: ByteBuffer(string: "{\(checks.joined(separator: ","))}")))
}
