import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Push

/// Every answer of Apple's, from a real server (push gateway reference, 4.7, and Apple's own table).
@Suite(.tags(.unit)) struct APNsAnswerTests {
  private static let dead = ["BadDeviceToken", "DeviceTokenNotForTopic", "TopicDisallowed"]
  private static let message = [
    "BadCollapseId", "BadExpirationDate", "BadMessageId", "BadPriority", "BadTopic", "DuplicateHeaders",
    "InvalidPushType", "MissingDeviceToken", "MissingTopic", "PayloadEmpty",
  ]
  private static let credentials = [
    "BadCertificate", "BadCertificateEnvironment", "BadEnvironmentKeyIdInToken", "Forbidden", "InvalidProviderToken",
    "MissingProviderToken", "UnrelatedKeyIdInToken",
  ]

  @Test func `every reason means what Apple says`() async throws {
    var rows: [(Int, String, PushOutcome)] = []
    func add(_ status: Int, _ words: [String], _ outcome: (String) -> PushOutcome) {
      rows += words.map { (status, $0, outcome($0)) }
    }
    add(400, Self.dead) { .dead(PushReason(.target, provider: $0, status: 400)) }
    add(400, Self.message) { .refused(PushReason(.message, provider: $0, status: 400)) }
    add(400, ["IdleTimeout"]) { .temporary(PushReason(.transport, provider: $0, status: 400)) }
    add(403, Self.credentials) { .refused(PushReason(.credentials, provider: $0, status: 403)) }
    add(403, ["ExpiredProviderToken"]) { .temporary(PushReason(.credentials, provider: $0, status: 403)) }
    add(404, ["BadPath"]) { .refused(PushReason(.message, provider: $0, status: 404)) }
    add(405, ["MethodNotAllowed"]) { .refused(PushReason(.message, provider: $0, status: 405)) }
    add(410, ["ExpiredToken", "Unregistered"]) { .dead(PushReason(.target, provider: $0, status: 410)) }
    add(413, ["PayloadTooLarge"]) { .refused(PushReason(.message, provider: $0, status: 413)) }
    add(429, ["TooManyProviderTokenUpdates"]) { .temporary(PushReason(.credentials, provider: $0, status: 429)) }
    add(429, ["TooManyRequests"]) { .temporary(PushReason(.quota, provider: $0, status: 429)) }
    add(500, ["InternalServerError"]) { .temporary(PushReason(.server, provider: $0, status: 500)) }
    add(503, ["ServiceUnavailable", "Shutdown"]) { .temporary(PushReason(.server, provider: $0, status: 503)) }
    try await check(rows)
  }

  private func check(_ rows: [(Int, String, PushOutcome)]) async throws {
    try await PushSite().withAPNs { provider, apns in
      for (status, word, expected) in rows {
        apns.answer(status, reason: word)
        let outcome = await provider.send(PushSite.apnsMessage(), deadline: .patient)
        #expect(outcome == expected, "\(status) \(word)")
        #expect(outcome.reason?.word == word)
        #expect(outcome.reason?.status == status)
      }
      #expect(apns.requests.count == rows.count)
      #expect(apns.faults == [])
    }
  }

  @Test func `a dead token is dead since Apple's time`() async throws {
    try await PushSite().withAPNs { provider, apns in
      apns.answer(410, reason: "Unregistered", timestamp: 1_700_000_000_000)
      let outcome = await provider.send(PushSite.apnsMessage(), deadline: .patient)
      let reason = PushReason(.target, provider: "Unregistered", status: 410)
      #expect(outcome == .dead(reason, since: Timestamp(millis: 1_700_000_000_000)))
    }
  }

  @Test func `an error without a reason is known by its status`() async throws {
    try await PushSite().withAPNs { provider, apns in
      apns.service.answer(.answer(503), .answer(400, "<html>"), .answer(410, #"{"reason":"a text, not a word"}"#))
      let outcomes = [
        await provider.send(PushSite.apnsMessage(), deadline: .patient),
        await provider.send(PushSite.apnsMessage(), deadline: .patient),
        await provider.send(PushSite.apnsMessage(), deadline: .patient),
      ]
      #expect(outcomes.map { $0.reason?.word } == ["status-503", "status-400", "status-410"])
      #expect(outcomes.map(\.word) == ["temporary", "refused", "dead"])
    }
  }

  @Test func `the time to try again is told`() async throws {
    try await PushSite().withAPNs { provider, apns in
      apns.answer(429, reason: "TooManyRequests", headers: ["retry-after": "17"])
      let outcome = await provider.send(PushSite.apnsMessage(), deadline: .patient)
      #expect(
        outcome
          == .temporary(PushReason(.quota, provider: "TooManyRequests", status: 429), retryAfter: .seconds(17)))
    }
  }
}
