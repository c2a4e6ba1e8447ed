import RelayCore

/// The result of one step on the way to a peer.
package struct ProbeResult: Sendable, Equatable {
  package enum Outcome: String, Sendable, CaseIterable {
    case passed = "ok"
    case warned = "warn"
    case failed = "fail"
    /// Not tried: what it needs failed before, or the peering does not cover it.
    case skipped = "skip"
  }

  package let step: PeerProbe.Step
  /// Whether the peer took this step towards us.
  package let isBack: Bool
  package let outcome: Outcome
  /// The finding. For a step on the way back it is the peer's text, made printable.
  package let text: String
  /// nil when there is nothing to do.
  package let remedy: String?
  package let duration: Duration
  /// Whether TLS had proven the peer when the step was over. Not told to anybody.
  let isProven: Bool

  init(
    step: PeerProbe.Step, isBack: Bool = false, _ finding: ProbeFinding, duration: Duration, isProven: Bool = false
  ) {
    self.step = step
    self.isProven = isProven
    self.isBack = isBack
    self.duration = duration
    outcome = finding.outcome
    text = finding.text
    remedy = finding.remedy
  }

  /// `tls`, or `back tls`.
  package var label: String { isBack ? "back \(step.rawValue)" : step.rawValue }
}

/// A step's outcome in words. Thrown, it ends the step.
struct ProbeFinding: Error, Sendable, Equatable {
  let outcome: ProbeResult.Outcome
  let text: String
  let remedy: String?

  static func passed(_ text: String) -> ProbeFinding { ProbeFinding(outcome: .passed, text: text, remedy: nil) }
  static func warned(_ text: String, remedy: String) -> ProbeFinding {
    ProbeFinding(outcome: .warned, text: text, remedy: remedy)
  }
  static func failed(_ text: String, remedy: String) -> ProbeFinding {
    ProbeFinding(outcome: .failed, text: text, remedy: remedy)
  }
  static func skipped(_ text: String, remedy: String? = nil) -> ProbeFinding {
    ProbeFinding(outcome: .skipped, text: text, remedy: remedy)
  }
}
