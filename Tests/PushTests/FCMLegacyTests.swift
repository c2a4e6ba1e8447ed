import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Push

/// The answers of Google's former service (push gateway reference, 6).
@Suite(.tags(.unit)) struct FCMLegacyTests {
  private func with(_ body: (FCMLegacyProvider, FakeService) async throws -> Void) async throws {
    let site = try PushSite()
    let service = try await FakeService(site.files)
    let provider = try FCMLegacyProvider(
      FCMLegacySettings(key: Secret("legacy-server-key"), endpoint: service.url, trust: site.files.trust),
      clock: site.clock.wall)
    try await body(provider, service)
    try await service.close()
  }

  private func message(_ tokens: String...) -> PushMessage {
    PushMessage(to: .fcmLegacy(registrationTokens: tokens), PushPayload("{}"))
  }

  @Test func `every error of a result has the meaning that FCM gave it`() async throws {
    let rows: [(String, PushReason.Kind, String)] = [
      ("MissingRegistration", .target, "dead"), ("InvalidRegistration", .target, "dead"),
      ("NotRegistered", .target, "dead"), ("InvalidPackageName", .target, "dead"),
      ("MismatchSenderId", .target, "dead"), ("MessageTooBig", .message, "refused"),
      ("InvalidDataKey", .message, "refused"), ("InvalidTtl", .message, "refused"),
      ("DeviceMessageRateExceeded", .quota, "temporary"), ("Unavailable", .server, "temporary"),
      ("InternalServerError", .server, "temporary"), ("SomethingNew", .server, "temporary"),
    ]
    try await with { provider, service in
      for (word, kind, outcome) in rows {
        service.answer(.answer(200, #"{"multicast_id":1,"results":[{"error":"\#(word)"}]}"#))
        let answered = await provider.send(message("reg-1"), deadline: .patient)
        #expect(answered.word == outcome, "\(word)")
        #expect(answered.reason == PushReason(kind, provider: word, status: 200))
      }
      #expect(service.requests.first?.path == "/fcm/send")
      #expect(service.requests.first?.headers["authorization"] == "key=legacy-server-key")
    }
  }

  @Test func `each of several tokens has its own outcome`() async throws {
    try await with { provider, service in
      service.answer(
        .answer(
          200, #"{"results":[{"message_id":"m","registration_id":"new"},{"error":"NotRegistered"},{"message_id":"n"}]}"#
        ))
      let outcome = await provider.send(message("a", "b", "c"), deadline: .patient)
      #expect(
        outcome
          == .several([
            .delivered(id: "m", canonical: .fcmLegacy(registrationTokens: ["new"])),
            .dead(PushReason(.target, provider: "NotRegistered", status: 200)), .delivered(id: "n"),
          ]))
    }
  }

  @Test func `a status applies to all tokens`() async throws {
    let rows: [(FakeAnswer, String)] = [
      (.answer(404), "dead"), (.answer(401), "refused"), (.answer(400), "refused"), (.answer(500), "temporary"),
      (.answer(429), "temporary"), (.answer(200, "no JSON"), "refused"), (.answer(200, #"{"results":[]}"#), "refused"),
    ]
    try await with { provider, service in
      for (answer, word) in rows {
        service.answer(answer)
        #expect(await provider.send(message("a", "b"), deadline: .patient).word == word)
      }
    }
  }
}
