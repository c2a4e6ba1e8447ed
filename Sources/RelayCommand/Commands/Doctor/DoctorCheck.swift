import Federation
import RelayCore
import RelayWork

/// Something that `relay doctor` looks at: to add a check, add one to `DoctorCommand.checks`.
struct DoctorCheck: Sendable {
  enum Group: String, Sendable, CaseIterable {
    case configuration, storage, schema, coordination, clock, certificates, ports, directory, attachments, outbox,
      peers, verification, push
  }

  let group: Group
  let name: String
  /// How long it may take; then it has failed.
  var limit = DoctorCheck.usualLimit
  /// Makes the findings; not empty.
  let look: @Sendable () async -> [Finding]

  static let usualLimit = Duration.seconds(10)

  /// Its findings under its name, and how long it took.
  func run() async -> [Diagnosis] {
    let start = ContinuousClock.now
    let late = Finding.failed(
      "no answer within \(limit.components.seconds) s", remedy: "See what it waits for: a host, a disk, a lock.")
    let findings = await TimeLimit.run(limit, look) ?? [late]
    let duration = ContinuousClock.now - start
    return findings.map { Diagnosis(group: group, check: $0.name ?? name, finding: $0, duration: duration) }
  }
}

/// One thing that a check found.
struct Finding: Sendable {
  enum Outcome: String, Sendable, CaseIterable { case ok, warn, fail, skip }

  let outcome: Outcome
  let text: String
  /// nil when there is nothing to do.
  let remedy: String?
  /// In place of the check's, where it finds several things.
  var name: String?

  static func ok(_ text: String) -> Finding { Finding(outcome: .ok, text: text, remedy: nil) }
  static func warned(_ text: String, remedy: String) -> Finding { Finding(outcome: .warn, text: text, remedy: remedy) }
  static func failed(_ text: String, remedy: String) -> Finding { Finding(outcome: .fail, text: text, remedy: remedy) }
  static func skipped(_ text: String) -> Finding { Finding(outcome: .skip, text: text, remedy: nil) }

  func named(_ name: String) -> Finding {
    var copy = self
    copy.name = name
    return copy
  }
}

/// A finding as it is printed.
struct Diagnosis: Sendable, Encodable {
  let group: String
  let check: String
  /// `ok`, `warn`, `fail`, `skip`.
  let outcome: String
  let text: String
  let remedy: String?
  /// The duration of the whole check.
  let milliseconds: Double

  init(group: DoctorCheck.Group, check: String, finding: Finding, duration: Duration) {
    self.group = group.rawValue
    self.check = check
    outcome = finding.outcome.rawValue
    text = finding.text
    remedy = finding.remedy
    milliseconds = (duration / .milliseconds(1) * 10).rounded() / 10
  }
}
