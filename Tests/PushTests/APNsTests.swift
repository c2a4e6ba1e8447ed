import NIOCore
import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Push

/// Pushes to Apple: what they look like, how they are proved, and what becomes of broken connections.
@Suite(.tags(.unit)) struct APNsTests {
  @Test func `a push has the headers and body that Apple wants`() async throws {
    let site = try PushSite()
    try await site.withAPNs { provider, apns in
      var message = PushSite.apnsMessage(#"{"aps": {"alert": "x"}}"#)
      #expect(await provider.send(message, deadline: .patient).word == "delivered")
      message.urgency = .low
      message.expires = site.clock.now.adding(.seconds(30))
      message.collapse = "room"
      message.kind = .voip
      message.topicSuffix = "voip"
      #expect(await provider.send(message, deadline: .patient).word == "delivered")
      #expect(apns.faults == [])
      let (first, second) = (apns.requests[0], apns.requests[1])
      #expect(first.path == "/3/device/\(PushSite.device)")
      #expect(first.text == #"{"aps": {"alert": "x"}}"#)
      #expect(first.headers["apns-topic"] == PushFiles.topic)
      #expect(first.headers["apns-priority"] == "10")
      for absent in ["apns-push-type", "apns-expiration", "apns-collapse-id"] { #expect(first.headers[absent] == nil) }
      #expect(second.headers["apns-topic"] == "\(PushFiles.topic).voip")
      #expect(second.headers["apns-priority"] == "5")
      #expect(second.headers["apns-push-type"] == "voip")
      #expect(second.headers["apns-collapse-id"] == "room")
      #expect(second.headers["apns-expiration"] == "\((site.clock.now.millis + 30_000) / 1000)")
      #expect(first.headers["apns-id"] != second.headers["apns-id"])
    }
  }

  @Test func `a token serves half an hour`() async throws {
    let site = try PushSite()
    try await site.withAPNs { provider, apns in
      for minutes in [0, 15, 14, 2, 28, 1] {
        site.clock.advance(.seconds(minutes * 60))
        #expect(await provider.send(PushSite.apnsMessage(), deadline: .patient).word == "delivered")
      }
      #expect(apns.faults == [])
      #expect(apns.tokens.count == 2)
      let token = try #require(apns.tokens.first)
      #expect(token.header == ["alg": "ES256", "kid": PushFiles.keyID, "typ": "JWT"])
      #expect(token.texts == ["iss": PushFiles.teamID])
    }
  }

  @Test func `a refused token is not replaced within twenty minutes`() async throws {
    let site = try PushSite()
    try await site.withAPNs { provider, apns in
      for (minutes, count) in [(0, 1), (19, 1), (2, 2)] {
        site.clock.advance(.seconds(minutes * 60))
        apns.answer(403, reason: "ExpiredProviderToken")
        let outcome = await provider.send(PushSite.apnsMessage(), deadline: .patient)
        #expect(outcome.reason?.kind == .credentials)
        #expect(await provider.send(PushSite.apnsMessage(), deadline: .patient).word == "delivered")
        #expect(apns.tokens.count == count, "after \(minutes) minutes")
      }
      #expect(apns.faults == [])
    }
  }

  @Test func `many at once share a token and a connection`() async throws {
    let site = try PushSite()
    try await site.withAPNs { provider, apns in
      await withTaskGroup(of: PushOutcome.self) { group in
        for _ in 0..<80 { group.addTask { await provider.send(PushSite.apnsMessage(), deadline: .patient) } }
        for await outcome in group { #expect(outcome.word == "delivered", "\(outcome)") }
      }
      #expect(apns.requests.count == 80)
      #expect(apns.tokens.count == 1)
      #expect(apns.faults == [])
    }
  }

  @Test func `an impossible token of Apple's is dead`() async throws {
    try await PushSite().withAPNs { provider, apns in
      for text in ["", "zz", "../../x", "ab%2f", String(repeating: "a", count: 401)] {
        let outcome = await provider.send(
          PushMessage(to: .apns(deviceToken: text), PushPayload("{}")), deadline: .patient)
        #expect(outcome == .dead(PushReason(.target, "bad-device-token")))
      }
      let tooLarge = await provider.send(
        PushSite.apnsMessage(String(repeating: "x", count: 4097)), deadline: .patient)
      #expect(tooLarge == .refused(PushReason(.message, "PayloadTooLarge")))
      #expect(apns.requests.isEmpty)
    }
  }

  @Test func `a connection that is lost during a request is named so`() async throws {
    try await PushSite().withAPNs { provider, apns in
      apns.service.answer(.hangUp)
      #expect(await provider.send(PushSite.apnsMessage(), deadline: .patient) == .temporary(.lost))
      #expect(await provider.send(PushSite.apnsMessage(), deadline: .patient).word == "delivered")
      #expect(apns.service.acceptedCount == 2)
    }
  }

  /// The lane tries a push again that meets the closing connection.
  @Test func `after a farewell, another connection is used and nothing is lost`() async throws {
    let site = try PushSite()
    try await site.withAPNs { provider, apns in
      let lane = site.lane(provider, limits: .patient())
      for answer in [FakeAnswer.farewell(200), .answer(200), .farewell(200), .answer(200)] {
        apns.service.answer(answer)
        let outcome = await lane.send(PushSite.apnsMessage(), deadline: .patient)
        #expect(outcome.word == "delivered", "\(answer): \(outcome), \(apns.service.acceptedCount)")
      }
      try await eventually("another connection") {
        guard await lane.send(PushSite.apnsMessage(), deadline: .patient).word == "delivered" else {
          throw TestFailure("a push was lost")
        }
        return apns.service.acceptedCount >= 2
      }
    }
  }

  @Test func `silence ends at the deadline`() async throws {
    try await PushSite().withAPNs { provider, apns in
      // A connection and a token are there.
      #expect(await provider.send(PushSite.apnsMessage(), deadline: .patient).word == "delivered")
      apns.service.answer(.silence)
      #expect(await provider.send(PushSite.apnsMessage(), deadline: .now + .seconds(1)) == .temporary(.timedOut))
    }
  }

  @Test func `a server that is not there is unreachable`() async throws {
    let site = try PushSite()
    let apns = try await site.apns(key: try site.files.makeAPNsKey())
    try await apns.close()
    let provider = try site.provider(of: apns)
    #expect(await provider.send(PushSite.apnsMessage(), deadline: .patient) == .temporary(.unreachable))
  }

  @Test func `a server that nobody vouches for gets nothing`() async throws {
    let site = try PushSite()
    let apns = try await site.apns(key: try site.files.makeAPNsKey())
    let provider = try APNsProvider(
      APNsSettings(
        authentication: .token(
          keyFile: site.files.apnsKey, keyID: PushFiles.keyID, teamID: PushFiles.teamID, topic: PushFiles.topic),
        endpoint: apns.url),
      clock: site.clock.wall, logger: site.log.logger)
    #expect(await provider.send(PushSite.apnsMessage(), deadline: .patient) == .temporary(.handshake))
    #expect(apns.requests.isEmpty)
    try await apns.close()
  }
}
