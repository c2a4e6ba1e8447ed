import RelayCore
import RelayMetrics
import TestTags
import Testing

@testable import Federation
@testable import Push
@testable import Relay

/// Labels whose values are words of a feature: the table lists exactly these.
@Suite(.tags(.unit)) struct LabelValueTests {
  @Test func `clients' codes and connections`() {
    check(CodeLabel.self, WrongCodes.Subject.allCases.map(\.rawValue))
    check(SocketEndLabel.self, ["client"] + EndReason.allCases.map(\.rawValue))
  }

  @Test func `peers' connections, requests and messages`() {
    check(HandshakeRefusalLabel.self, HandshakePlaces.Refusal.allCases.map(\.rawValue))
    check(UndeliverableLabel.self, UndeliverableReason.allCases.map(\.rawValue))
    let failures: [PeerFailure] = [
      .busy, .halted(.network), .unreachable(reason: ""), .privateAddress, .handshake(reason: ""), .timedOut,
      .answerTooLarge, .unreadable, .cancelled, .retired,
    ]
    check(PeerOutcomeLabel.self, ["answered"] + failures.map(\.word))
    let refusals: [Problem.Kind] = [.budgetExceeded, .rateLimited, .scopeRefused]
    check(PeerRefusalLabel.self, refusals.map(\.rawValue) + ["connections"])
  }

  @Test func `providers and outcomes of pushes`() {
    check(WakeProviderLabel.self, WakeProvider.allCases.map(\.word))
    check(WakeKindLabel.self, WakeAttempt.Kind.allCases.map(\.rawValue))
    check(WakeOutcomeLabel.self, WakeAttempt.Outcome.allCases.map(\.rawValue))
    check(PushProviderLabel.self, PushLaneName.Provider.allCases.map(\.rawValue))
    check(NotificationServiceLabel.self, NotificationService.allCases.map(\.rawValue))
    let reason = PushReason.halted
    let outcomes: [PushOutcome] = [
      .delivered(id: nil), .dead(reason), .refused(reason), .temporary(reason), .several([]),
    ]
    check(PushOutcomeLabel.self, outcomes.map(\.word))
  }

  private func check(
    _ label: any MetricLabel.Type, _ values: [String], sourceLocation: SourceLocation = #_sourceLocation
  ) {
    guard case .listed(let listed) = label.values else {
      Issue.record("the values are not listed", sourceLocation: sourceLocation)
      return
    }
    #expect(Set(listed) == Set(values) && Set(listed).count == listed.count, sourceLocation: sourceLocation)
  }
}
