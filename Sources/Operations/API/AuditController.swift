import Hummingbird
package import RelayCore

/// `/api/v1/audit`: what operators changed.
struct AuditController: Sendable {
  let parts: @Sendable () throws(APIProblem) -> OperatorAPI.Parts

  @Sendable func list(_ request: Request, _ context: OperatorContext) async throws -> Response {
    let parts = try parts()
    let limit = try request.whole("limit", in: 1...10_000, otherwise: 100)
    let before = try request.whole("before", in: 1...Int64.max, otherwise: .max)
    let entries = try await parts.store.auditEntries(
      before: before, about: request.uri.queryParameters.get("about"), limit: Int(limit))
    return try .api(entries.map(AuditRow.init))
  }
}

/// One entry of the audit log, as a line of JSON.
package struct AuditRow: Encodable, Sendable {
  package let id: Int64
  package let time: String
  /// `user:NAME` or `token:NAME`.
  package let who: String
  package let action: String
  package let subject: String?
  /// `done`, `failed`, or `unknown`: under way, or broken off.
  package let result: String
  package let reason: String?

  package init(_ entry: AuditEntry) {
    id = entry.id
    time = entry.time.iso8601
    who = entry.deed.actor.text
    action = entry.deed.action
    subject = entry.deed.subject
    switch entry.outcome {
    case .unknown: (result, reason) = ("unknown", nil)
    case .done: (result, reason) = ("done", nil)
    case .failed(let text): (result, reason) = ("failed", text)
    }
  }
}
