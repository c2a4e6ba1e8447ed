import RelayCore

extension AuditOutcome {
  /// How it stands in the columns `outcome` and `reason`.
  var columns: (outcome: Int64, reason: String?) {
    switch self {
    case .unknown: (0, nil)
    case .done: (1, nil)
    case .failed(let reason): (2, reason.auditText)
    }
  }

  init(outcome: Int64, reason: String?) throws(StoreError) {
    switch (outcome, reason) {
    case (0, _): self = .unknown
    case (1, _): self = .done
    case (2, let reason): self = .failed(reason: reason ?? "")
    default: throw .corrupted(reason: "an audited outcome is none")
    }
  }
}

extension String {
  /// A text as it may stand in the audit log: bounded, one line, without characters that stores or terminals cannot
  /// bear.
  var auditText: String {
    let line = String(
      map { $0.isNewline || $0.unicodeScalars.contains { $0.value < 0x20 || $0.value == 0x7F } ? " " : $0 })
    guard line.utf8.count > AuditLife.textBytesMax else { return line }
    var end = line.startIndex
    for index in line.indices where line.utf8.distance(from: line.startIndex, to: index) <= AuditLife.textBytesMax {
      end = index
    }
    return String(line[..<end])
  }
}

extension AuditEntry {
  /// As both stores have it.
  init(
    id: Int64, time: Timestamp, actor: String, action: String, subject: String?, outcome: Int64, reason: String?
  ) throws(StoreError) {
    guard let actor = AuditActor(actor) else { throw .corrupted(reason: "an audited actor is none") }
    self.init(
      id: id, time: time, deed: AuditDeed(by: actor, action: action, subject: subject),
      outcome: try AuditOutcome(outcome: outcome, reason: reason))
  }
}
