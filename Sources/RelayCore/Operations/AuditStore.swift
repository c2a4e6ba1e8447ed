// The audit log: what operators changed (docs/operating.md, "The audit log").

/// Somebody who changes a relay by its commands or its operator API.
package enum AuditActor: Sendable, Hashable {
  /// A user of the host on which the command ran.
  case user(String)
  /// A token of the operator API, by its name.
  case token(String)

  package var text: String {
    switch self {
    case .user(let name): "user:\(name)"
    case .token(let name): "token:\(name)"
    }
  }

  /// Reads `text`.
  package init?(_ text: String) {
    let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
    guard parts.count == 2 else { return nil }
    switch parts[0] {
    case "user": self = .user(parts[1])
    case "token": self = .token(parts[1])
    default: return nil
    }
  }
}

package enum AuditOutcome: Sendable, Equatable {
  /// Under way, or its process ended before it could say.
  case unknown
  case done
  /// `reason` is for people, and names no number.
  case failed(reason: String)
}

/// One change, as it was noted before it began.
package struct AuditDeed: Sendable, Equatable {
  package let actor: AuditActor
  /// The words of the command that does it: `accounts ban`.
  package let action: String
  /// The subject of the change: an account's handle or a peer's name; nil for the relay itself.
  package let subject: String?
  package init(by actor: AuditActor, action: String, subject: String?) {
    self.actor = actor
    self.action = action
    self.subject = subject
  }
}

/// One row of the audit log.
package struct AuditEntry: Sendable, Equatable {
  /// Rises with time.
  package let id: Int64
  package let time: Timestamp
  package let deed: AuditDeed
  package let outcome: AuditOutcome
  package init(id: Int64, time: Timestamp, deed: AuditDeed, outcome: AuditOutcome) {
    self.id = id
    self.time = time
    self.deed = deed
    self.outcome = outcome
  }
}

/// The audit log: what operators changed, when and with which result.
package protocol AuditStore: Sendable {
  /// Notes that `deed` begins, by the store's clock.
  /// - Returns: the entry's id.
  func beginAudit(_ deed: AuditDeed) async throws(StoreError) -> Int64
  /// Notes how it ended. An entry that has an outcome keeps it.
  func endAudit(_ id: Int64, _ outcome: AuditOutcome) async throws(StoreError)
  /// The newest entries, or those before `id`: at most `limit`, ascending by id.
  /// - Parameter subject: only entries about it; nil for all.
  func auditEntries(before id: Int64?, about subject: String?, limit: Int) async throws(StoreError) -> [AuditEntry]
}

package enum AuditLife {
  /// Entries are kept for so long.
  package static let days: Int64 = 400
  /// Longer texts are cut when they are noted.
  package static let textBytesMax = 500
}

extension AuditStore {
  /// Notes `deed`, does it, and notes how it ended. Nothing is done that cannot be noted.
  /// - Parameter reason: of an error, in words that name no number.
  package func noting<Value>(
    _ deed: AuditDeed, reason: (any Error) -> String, _ body: () async throws -> Value
  ) async throws -> Value {
    let id = try await beginAudit(deed)
    let value: Value
    do {
      value = try await body()
    } catch {
      // A store that is away cannot note it: then the outcome stays unknown.
      try? await endAudit(id, .failed(reason: reason(error)))
      throw error
    }
    // It is done, whether or not that can be noted: then the outcome stays unknown.
    try? await endAudit(id, .done)
    return value
  }
}

/// A token of the operator API, with the name under which the audit log knows its holder.
package struct OperatorToken: Sensitive, Sendable, Hashable {
  package static let kind: StaticString = "operator token"
  package let name: String
  package let token: Secret
  package init(name: String, token: Secret) {
    self.name = name
    self.token = token
  }
}
