import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Push

/// A lane's retries: which pushes, when, and when it stops.
@Suite(.tags(.unit)) struct LaneRetryTests {
  /// Far beyond all waits of the tables.
  private var late: ContinuousClock.Instant { .now + .seconds(3600) }

  private func apns(
    _ answers: [FakeAnswer], within limit: Duration = .seconds(3600)
  ) async throws -> (PushOutcome, waits: [Duration], requests: Int) {
    let (site, skipped) = (try PushSite(), SkippedTime())
    let apns = try await site.apns(key: try site.files.makeAPNsKey())
    for answer in answers { apns.service.answer(answer) }
    let lane = site.lane(try site.provider(of: apns), limits: .patient(), time: skipped.time)
    let outcome = await lane.send(PushSite.apnsMessage(), deadline: skipped.now + limit)
    let requests = apns.requests.count
    try await apns.close()
    return (outcome, skipped.waited, requests)
  }

  @Test func `a failure of Apple's is tried three times`() async throws {
    let (once, waits, requests) = try await apns([.answer(500), .answer(200)])
    #expect(once.word == "delivered")
    #expect(waits == [.seconds(10)])
    #expect(requests == 2)
    let (always, longer, three) = try await apns([.answer(503), .answer(503), .answer(503), .answer(200)])
    #expect(always == .temporary(PushReason(.server, provider: nil, status: 503)))
    #expect(longer == [.seconds(10), .seconds(20)])
    #expect(three == 3)
  }

  @Test func `a lost connection is tried again at once, three times in all`() async throws {
    let (once, none, two) = try await apns([.hangUp])
    #expect(once.word == "delivered" && none == [] && two == 2, "\(once)")
    let (always, waits, three) = try await apns([.hangUp, .hangUp, .hangUp])
    #expect(always == .temporary(.lost) && waits == [] && three == 3)
  }

  @Test func `a final answer is not tried again`() async throws {
    for status in [400, 403, 404, 410, 413] {
      let (outcome, waits, requests) = try await apns([.answer(status)])
      #expect(["refused", "dead"].contains(outcome.word))
      #expect(waits == [])
      #expect(requests == 1)
    }
  }

  @Test func `a pause past the deadline is not begun`() async throws {
    let (outcome, waits, requests) = try await apns([.answer(429), .answer(200)], within: .seconds(60))
    #expect(outcome == .temporary(PushReason(.quota, provider: nil, status: 429)))
    #expect(waits == [])
    #expect(requests == 1)
    let (second, first, two) = try await apns([.answer(500), .answer(500), .answer(200)], within: .seconds(25))
    #expect(second == .temporary(PushReason(.server, provider: nil, status: 500)))
    #expect(first == [.seconds(10)])
    #expect(two == 2)
  }

  @Test func `Google's schedule and its wishes are kept`() async throws {
    let rows: [([FakeAnswer], [Duration])] = [
      ([.answer(500)], [.seconds(10)]), ([.answer(503, "", headers: ["retry-after": "7"])], [.seconds(7)]),
      ([.answer(429)], [.seconds(60)]), ([.answer(429), .answer(429)], [.seconds(60), .seconds(120)]),
      ([.hangUp], [.seconds(10)]),
      ([.answer(503, "", headers: ["retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"])], [.seconds(10)]),
    ]
    for (answers, waits) in rows {
      let (site, skipped) = (try PushSite(), SkippedTime())
      try await site.withFCM { provider, fcm in
        for answer in answers { fcm.service.answer(answer) }
        let lane = site.lane(provider, .fcm, limits: .patient(), retries: .fcm, time: skipped.time)
        #expect(await lane.send(PushSite.fcmMessage(), deadline: late).word == "delivered")
        #expect(skipped.waited == waits)
      }
    }
  }

  @Test func `a push service's requested pauses are kept, if there is time`() async throws {
    let (site, skipped) = (try PushSite(), SkippedTime())
    try await site.withWebPush { provider, service in
      service.service.answer(
        .answer(429, "", headers: ["retry-after": "2"]), .answer(503), .answer(201),
        .answer(429, "", headers: ["retry-after": "60"]), .answer(429))
      let lane = site.lane(provider, .webPush, limits: .patient(), retries: .webPush, time: skipped.time)
      let message = try PushSite.webMessage(service.subscribe())
      #expect(await lane.send(message, deadline: skipped.now + .seconds(45)).word == "delivered")
      #expect(skipped.waited == [.seconds(2), .seconds(20)])
      let quota = PushReason(.quota, provider: nil, status: 429)
      #expect(
        await lane.send(message, deadline: skipped.now + .seconds(45)) == .temporary(quota, retryAfter: .seconds(60)))
      // Nor without a word of it.
      #expect(await lane.send(message, deadline: skipped.now + .seconds(45)) == .temporary(quota))
      #expect(skipped.waited.count == 2 && service.requests.count == 5)
    }
  }

  @Test func `an expired message is never sent`() async throws {
    let (site, skipped) = (try PushSite(), SkippedTime())
    try await site.withAPNs { provider, apns in
      let lane = site.lane(provider, limits: .patient(), time: skipped.time)
      var message = PushSite.apnsMessage()
      message.expires = site.clock.now
      #expect(await lane.send(message, deadline: late) == .refused(.expired))
      #expect(apns.requests.isEmpty)
      // Nor is a wait begun that it does not survive.
      message.expires = site.clock.now.adding(.seconds(100))
      apns.service.answer(.answer(429))
      #expect(await lane.send(message, deadline: late).reason?.status == 429)
      #expect(skipped.waited == [])
      #expect(apns.requests.count == 1)
    }
  }

  @Test func `a push that waited until the breaker opened does not count as started`() async throws {
    let (site, events) = (try PushSite(), LaneEvents())
    try await site.withAPNs { provider, apns in
      apns.service.answerAlways(.silence)
      let lane = site.lane(
        provider, limits: .patient(workers: 1), retries: .none, time: SkippedTime().time, events: events)
      let limit = late
      let first = Task { await lane.send(PushSite.apnsMessage(), deadline: limit) }
      try await eventually("it is asked") { apns.requests.count == 1 }
      let others = (0..<3).map { _ in Task { await lane.send(PushSite.apnsMessage(), deadline: limit) } }
      try await eventually("they wait") { events.all.count == 5 }
      try await apns.close()
      for task in [first] + others { #expect(await task.value.word == "temporary") }
      // The third failure opens the breaker under the fourth.
      #expect(events.all.count { $0 == "started" } == 3 && events.all.count { $0 == "temporary" } == 3)
      #expect(events.all.last == "left")
    }
  }

  @Test func `a lane reports its work`() async throws {
    let (site, events) = (try PushSite(), LaneEvents())
    try await site.withAPNs { provider, apns in
      apns.service.answer(.answer(500))
      let lane = site.lane(provider, limits: .patient(), time: SkippedTime().time, events: events)
      _ = await lane.send(PushSite.apnsMessage(), deadline: late)
      #expect(events.all == ["queued", "started", "temporary", "queued", "started", "delivered"])
    }
  }
}
