import Foundation
import HTTPTypes
import Hummingbird
import NIOCore
package import RelayCore
import RelayHTTP

/// The JSON API of the operator's listener, behind tokens. It does what `relay accounts` and `relay audit` do by
/// command (docs/operating.md, "The operator API"). The console stands on the same parts.
///
/// It is there from the start, and answers 503 until `open` gives it what it stands on.
package struct OperatorAPI: Sendable {
  package struct Parts: Sendable {
    let store: any AccountReports.Store & AuditStore
    let remover: any AccountRemoving
    let limiter: any RateLimiter
    let signals: any SignalBus
    let senders: any SenderRanking
    let console: any ConsoleSources
    let clock: WallClock
    package init(
      store: any AccountReports.Store & AuditStore, remover: any AccountRemoving, limiter: any RateLimiter,
      signals: any SignalBus, senders: any SenderRanking, console: any ConsoleSources, clock: WallClock
    ) {
      self.store = store
      self.remover = remover
      self.limiter = limiter
      self.signals = signals
      self.senders = senders
      self.console = console
      self.clock = clock
    }
  }

  let tokens: @Sendable () -> OperatorTokens
  private let opened = LiveSetting<Parts?>(nil)

  /// - Parameter tokens: as they are now.
  package init(tokens: @escaping @Sendable () -> OperatorTokens) { self.tokens = tokens }

  package func open(_ parts: Parts) { opened.replace(by: parts) }

  static let handlesPath = "/api/v1/handles"

  func addRoutes(to router: Router<OperatorContext>) {
    let api = router.group("").add(middleware: OperatorGate(tokens: tokens))
    let accounts = AccountsController(parts: parts)
    api.part("/api/v1/accounts", [(.get, accounts.list)])
    api.part("/api/v1/accounts/count", [(.get, accounts.count)])
    api.part("/api/v1/accounts/:account", [(.get, accounts.show), (.delete, accounts.delete)])
    api.part("/api/v1/accounts/:account/devices", [(.get, accounts.devices)])
    api.part("/api/v1/accounts/:account/limits", [(.get, accounts.limits), (.delete, accounts.resetLimits)])
    api.part("/api/v1/accounts/:account/export", [(.get, accounts.export)])
    api.part("/api/v1/bans/:account", [(.get, accounts.ban), (.put, accounts.addBan), (.delete, accounts.endBan)])
    api.part("/api/v1/handles", [(.post, accounts.handle)])
    api.part("/api/v1/senders", [(.get, accounts.senders)])
    let audit = AuditController(parts: parts)
    api.part("/api/v1/audit", [(.get, audit.list)])
  }

  @Sendable func parts() throws(APIProblem) -> Parts {
    guard let parts = opened.value else { throw .notReady }
    return parts
  }
}

typealias APIHandler = @Sendable (Request, OperatorContext) async throws -> Response

extension RouterMethods<OperatorContext> {
  /// Adds everything that stands under `path`; any other known method is answered with 405.
  fileprivate func part(_ path: RouterPath, _ handlers: [(method: HTTPRequest.Method, handler: APIHandler)]) {
    for (method, handler) in handlers {
      on(path, method: method) { request, context in try await handler(request, context) }
    }
    let allowed = handlers.map(\.method)
    let known: [HTTPRequest.Method] = [.get, .put, .post, .delete, .patch]
    for method in known where !allowed.contains(method) {
      on(path, method: method) { _, _ -> Response in
        var problem = APIProblem(.methodNotAllowed, "method-not-allowed", "This resource does not know that method.")
        problem.headers[.allow] = allowed.map(\.rawValue).joined(separator: ", ")
        throw problem
      }
    }
  }
}

extension Response {
  /// 200 with what a command prints with `--json`.
  static func api(_ value: some Encodable) throws -> Response {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    var response = Response.json(Array(try encoder.encode(value)) + [0x0A])
    response.headers[.cacheControl] = "no-store"
    return response
  }
}

extension Request {
  /// A whole number of the query within `range`; `otherwise` where there is none.
  func whole(_ name: String, in range: ClosedRange<Int64>, otherwise: Int64) throws(APIProblem) -> Int64 {
    guard let text = uri.queryParameters.get(name) else { return otherwise }
    guard let value = Int64(text), range.contains(value) else {
      throw APIProblem(
        .badRequest, "malformed", "`\(name)` is a whole number, \(range.lowerBound) to \(range.upperBound).")
    }
    return value
  }
}
