import Hummingbird
import RelayCore

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
