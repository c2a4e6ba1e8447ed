package import RelayCore

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
