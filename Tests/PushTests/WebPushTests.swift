import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Push

/// Pushes to browsers: what they look like, how they are proved, and what the answers mean.
@Suite(.tags(.unit)) struct WebPushTests {
  @Test func `a push arrives as it was written`() async throws {
    let site = try PushSite()
    try await site.withWebPush { provider, service in
      let subscription = service.subscribe()
      var message = try PushSite.webMessage(subscription, #"{"text":"é…"}"#)
      #expect(await provider.send(message, deadline: .patient) == .delivered(id: nil))
      message.urgency = .low
      message.expires = site.clock.now.adding(.seconds(60))
      message.collapse = "PBkf1POw4SlQiAVKK_FX-neVlrdo_w"
      #expect(await provider.send(message, deadline: .patient).word == "delivered")
      message.collapse = "no topic: ="
      #expect(await provider.send(message, deadline: .patient).word == "delivered")
      #expect(service.faults == [])
      #expect(service.messages == Array(repeating: #"{"text":"é…"}"#, count: 3))
      let headers = service.requests.map(\.headers)
      #expect(headers.map { $0["ttl"] } == ["900", "60", "60"])
      #expect(headers.map { $0["urgency"] } == ["normal", "low", "low"])
      #expect(headers.map { $0["topic"] } == [nil, "PBkf1POw4SlQiAVKK_FX-neVlrdo_w", nil])
    }
  }

  @Test func `a token serves an origin for hours`() async throws {
    let site = try PushSite()
    try await site.withWebPush { provider, service in
      let message = try PushSite.webMessage(service.subscribe())
      for (hours, count) in [(0, 1), (5, 1), (1, 2), (5, 2)] {
        site.clock.advance(.seconds(hours * 3600))
        #expect(await provider.send(message, deadline: .patient).word == "delivered")
        #expect(service.tokens.count == count)
      }
      #expect(service.faults == [])
      let token = try #require(service.tokens.first)
      #expect(token.texts == ["aud": service.url, "sub": "mailto:admin@example.org"])
      #expect(token.header == ["alg": "ES256", "typ": "JWT"])
    }
  }

  /// Push gateway reference, 7.5 and 13.
  @Test func `every answer means what it says`() async throws {
    let rows: [(Int, PushReason.Kind?, String)] = [
      (200, nil, "delivered"), (201, nil, "delivered"), (202, nil, "delivered"), (404, .target, "dead"),
      (410, .target, "dead"), (400, .message, "refused"), (401, .message, "refused"), (403, .message, "refused"),
      (413, .message, "refused"), (301, .message, "refused"), (307, .message, "refused"), (429, .quota, "temporary"),
      (500, .server, "temporary"), (502, .server, "temporary"), (503, .server, "temporary"),
    ]
    try await PushSite().withWebPush { provider, service in
      let message = try PushSite.webMessage(service.subscribe())
      for (status, kind, word) in rows {
        service.service.answer(
          .answer(status, "text", headers: ["location": service.url + "/elsewhere", "retry-after": "60"]))
        let outcome = await provider.send(message, deadline: .patient)
        #expect(outcome.word == word, "\(status)")
        #expect(outcome.reason == kind.map { PushReason($0, provider: nil, status: status) })
        if case .temporary(_, let asked) = outcome { #expect(asked == .seconds(60)) }
      }
      // A redirection leads nowhere.
      #expect(service.requests.count == rows.count)
      #expect(service.faults == [])
    }
  }

  @Test func `a new key is taken up`() async throws {
    let site = try PushSite()
    try await site.withWebPush { provider, service in
      let message = try PushSite.webMessage(service.subscribe())
      #expect(await provider.send(message, deadline: .patient).word == "delivered")
      service.trust(try site.files.makeVAPIDKey())
      #expect(provider.reload())
      #expect(await provider.send(message, deadline: .patient).word == "delivered")
      #expect(service.faults == [])
    }
  }

  @Test func `a push that is too large is not sent`() async throws {
    try await PushSite().withWebPush { provider, service in
      let subscription = service.subscribe()
      let largest = try PushSite.webMessage(subscription, String(repeating: "x", count: 3993))
      #expect(await provider.send(largest, deadline: .patient).word == "delivered")
      let larger = try PushSite.webMessage(subscription, String(repeating: "x", count: 3994))
      #expect(await provider.send(larger, deadline: .patient) == .refused(.tooLarge))
      #expect(service.requests.count == 1)
    }
  }

  @Test func `only allowed endpoints get anything`() async throws {
    let site = try PushSite()
    try await site.withWebPush { _, service in
      let message = try PushSite.webMessage(service.subscribe())
      let strict = try site.webPush(allowed: ["*.push.example"])
      #expect(await strict.send(message, deadline: .patient) == .refused(.endpointNotAllowed))
      #expect(service.requests.isEmpty)
      let wide = try site.webPush(allowed: ["*.push.example", "127.0.0.1:*"])
      #expect(await wide.send(message, deadline: .patient).word == "delivered")
    }
  }
}
