import NIOCore
import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Push

/// Pushes to Google: its answers, and the exchange that they need.
@Suite(.tags(.unit)) struct FCMTests {
  private func reason(_ kind: PushReason.Kind, _ word: String, _ status: Int) -> PushReason {
    PushReason(kind, provider: word, status: status)
  }

  @Test func `a push is sent unchanged`() async throws {
    try await PushSite().withFCM { provider, fcm in
      let outcome = await provider.send(PushSite.fcmMessage(), deadline: .patient)
      #expect(outcome == .delivered(id: "projects/example-project/messages/0:1"))
      #expect(fcm.requests.first?.text == #"{"message":{"data":{"k":"v"},"token":"fcm-token-1"}}"#)
      #expect(fcm.requests.first?.headers["authorization"] == "Bearer access-token-1")
      #expect(fcm.faults == [])
    }
  }

  /// Push gateway reference, 5.5, and Google's error codes.
  @Test func `every answer means what Google says`() async throws {
    let rows: [(status: Int, word: String, code: String?, field: String?, expected: PushOutcome)] = [
      (404, "NOT_FOUND", "UNREGISTERED", nil, .dead(reason(.target, "UNREGISTERED", 404))),
      (404, "UNREGISTERED", nil, nil, .dead(reason(.target, "UNREGISTERED", 404))),
      (400, "INVALID_ARGUMENT", nil, nil, .refused(reason(.message, "INVALID_ARGUMENT", 400))),
      (400, "INVALID_ARGUMENT", nil, "message.data[0].value", .refused(reason(.message, "INVALID_ARGUMENT", 400))),
      (400, "INVALID_ARGUMENT", "INVALID_ARGUMENT", "message.token", .dead(reason(.target, "INVALID_ARGUMENT", 400))),
      (401, "UNAUTHENTICATED", nil, nil, .refused(reason(.credentials, "UNAUTHENTICATED", 401))),
      (
        401, "UNAUTHENTICATED", "THIRD_PARTY_AUTH_ERROR", nil,
        .refused(reason(.message, "THIRD_PARTY_AUTH_ERROR", 401))
      ),
      (403, "PERMISSION_DENIED", nil, nil, .refused(reason(.credentials, "PERMISSION_DENIED", 403))),
      (403, "PERMISSION_DENIED", "SENDER_ID_MISMATCH", nil, .refused(reason(.message, "SENDER_ID_MISMATCH", 403))),
      (429, "RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED", nil, .temporary(reason(.quota, "QUOTA_EXCEEDED", 429))),
      (500, "INTERNAL", nil, nil, .temporary(reason(.server, "INTERNAL", 500))),
      (503, "UNAVAILABLE", "UNAVAILABLE", nil, .temporary(reason(.server, "UNAVAILABLE", 503))),
    ]
    try await PushSite().withFCM { provider, fcm in
      for row in rows {
        fcm.answer(row.status, row.word, code: row.code, field: row.field)
        let outcome = await provider.send(PushSite.fcmMessage(), deadline: .patient)
        #expect(outcome == row.expected, "\(row.status) \(row.word) \(row.code ?? "") \(row.field ?? "")")
      }
      fcm.service.answer(.answer(302, "", headers: ["location": "https://127.0.0.1:1/"]), .answer(500, "<html>"))
      let redirected = await provider.send(PushSite.fcmMessage(), deadline: .patient)
      #expect(redirected.reason?.word == "status-302")
      let unnamed = await provider.send(PushSite.fcmMessage(), deadline: .patient)
      #expect(unnamed == .temporary(PushReason(.server, provider: nil, status: 500)))
      #expect(fcm.faults == [])
    }
  }

  @Test func `the time to try again is read in both forms`() async throws {
    let site = try PushSite()
    try await site.withFCM { provider, fcm in
      let forms: [(String, Duration?)] = [
        ("7", .seconds(7)), ("Wed, 21 Oct 2015 07:28:00 GMT", nil), ("Wed, 21 Oct 2099 07:28:00 GMT", RetryAfter.max),
      ]
      for (text, expected) in forms {
        fcm.answer(503, "UNAVAILABLE", headers: ["retry-after": text])
        let outcome = await provider.send(PushSite.fcmMessage(), deadline: .patient)
        #expect(outcome == .temporary(reason(.server, "UNAVAILABLE", 503), retryAfter: expected), "\(text)")
      }
    }
  }

  @Test func `one exchange serves all who wait`() async throws {
    try await PushSite().withFCM { provider, fcm in
      fcm.exchange.pause(.milliseconds(300))
      await withTaskGroup(of: PushOutcome.self) { group in
        for _ in 0..<50 { group.addTask { await provider.send(PushSite.fcmMessage(), deadline: .patient) } }
        for await outcome in group { #expect(outcome.word == "delivered") }
      }
      #expect(fcm.exchange.requests.count == 1)
      #expect(fcm.requests.count == 50)
    }
  }

  @Test func `a token is renewed before it ends`() async throws {
    let site = try PushSite()
    try await site.withFCM { provider, fcm in
      // 225 seconds before its end, not one earlier.
      for (seconds, count) in [(0, 1), (3374, 1), (1, 2), (3374, 2), (1, 3)] {
        site.clock.advance(.seconds(seconds))
        #expect(await provider.send(PushSite.fcmMessage(), deadline: .patient).word == "delivered")
        #expect(fcm.issuedCount == count)
      }
      #expect(fcm.faults == [])
    }
  }

  @Test func `a withdrawn token is not used again`() async throws {
    try await PushSite().withFCM { provider, fcm in
      #expect(await provider.send(PushSite.fcmMessage(), deadline: .patient).word == "delivered")
      fcm.withdrawTokens()
      let refused = await provider.send(PushSite.fcmMessage(), deadline: .patient)
      #expect(refused == .refused(reason(.credentials, "UNAUTHENTICATED", 401)))
      #expect(await provider.send(PushSite.fcmMessage(), deadline: .patient).word == "delivered")
      #expect(fcm.issuedCount == 2)
    }
  }

  @Test func `an exchange that fails is temporary`() async throws {
    try await PushSite().withFCM { provider, fcm in
      fcm.exchange.answer(
        .answer(503, "", headers: ["retry-after": "9"]), .answer(400, #"{"error":"invalid_grant"}"#),
        .answer(200, "no JSON"), .answer(200, #"{"access_token":"a\r\nb","expires_in":3600}"#), .hangUp)
      var outcomes: [PushOutcome] = []
      for _ in 0..<5 { outcomes.append(await provider.send(PushSite.fcmMessage(), deadline: .patient)) }
      #expect(outcomes[0] == .temporary(PushReason(.server, "token-failed"), retryAfter: .seconds(9)))
      #expect(outcomes[1] == .temporary(PushReason(.credentials, "token-refused")))
      #expect(outcomes[2] == .temporary(PushReason(.server, "token-unreadable")))
      #expect(outcomes[3] == .temporary(PushReason(.server, "token-unreadable")))
      #expect(outcomes[4] == .temporary(.lost))
      #expect(await provider.send(PushSite.fcmMessage(), deadline: .patient).word == "delivered")
      #expect(fcm.requests.count == 1)
    }
  }

  @Test func `a push that cannot wait for the exchange does not`() async throws {
    try await PushSite().withFCM { provider, fcm in
      fcm.exchange.answer(.silence)
      let outcome = await provider.send(PushSite.fcmMessage(), deadline: .now + .milliseconds(200))
      #expect(outcome == .temporary(.tokenTimedOut))
    }
  }

  @Test func `a service account that lacks something is refused`() throws {
    let site = try PushSite()
    for (text, reason) in [
      ("no JSON", "not the JSON of a service account"), ("{}", "no client_email or no private_key"),
      (#"{"client_email":"a","private_key":"b"}"#, "private_key is no RSA key in PEM"),
    ] {
      try site.files.write(text, to: "service-account.json")
      #expect(accountError(site)?.reason == reason)
    }
  }

  private func accountError(_ site: PushSite) -> PushCredentialError? {
    do throws(PushCredentialError) {
      _ = try FCMProvider(
        FCMSettings(serviceAccountFile: site.files.serviceAccount), clock: site.clock.wall, logger: site.log.logger)
      return nil
    } catch {
      return error
    }
  }
}
