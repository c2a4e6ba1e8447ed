import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Push

/// Bounds of a lane, its ends, and its breaker.
@Suite(.tags(.unit)) struct LaneTests {
  /// A message under way that is not answered, and `body` meanwhile.
  private func whileSilent(
    _ limits: PushLaneLimits, _ body: (PushLane, FakeAPNs) async throws -> Void
  ) async throws {
    let site = try PushSite()
    try await site.withAPNs { provider, apns in
      apns.service.answer(.silence)
      let lane = site.lane(provider, limits: limits, retries: .none)
      let stuck = Task { await lane.send(PushSite.apnsMessage(), deadline: .now + .seconds(300)) }
      try await eventually("it is asked") { apns.requests.count == 1 }
      try await body(lane, apns)
      try await apns.close()
      #expect(await stuck.value == .temporary(.lost))
      #expect(lane.heldCount == 0)
    }
  }

  @Test func `a full lane takes no more pushes`() async throws {
    try await whileSilent(.patient(held: 1)) { lane, apns in
      #expect(await lane.send(PushSite.apnsMessage(), deadline: .patient) == .temporary(.queueFull))
      #expect(apns.requests.count == 1)
    }
    try await whileSilent(.patient(bytes: 2000)) { lane, apns in
      #expect(await lane.send(PushSite.apnsMessage(), deadline: .patient) == .temporary(.queueFull))
      #expect(apns.requests.count == 1)
    }
  }

  @Test func `a push that waits for a worker gives up at its deadline`() async throws {
    try await whileSilent(.patient(workers: 1)) { lane, apns in
      #expect(await lane.send(PushSite.apnsMessage(), deadline: .now + .milliseconds(200)) == .temporary(.deadline))
      #expect(await lane.send(PushSite.apnsMessage(), deadline: .now) == .temporary(.deadline))
      #expect(apns.requests.count == 1)
    }
  }

  @Test func `a push that is cancelled while it waits leaves at once`() async throws {
    try await whileSilent(.patient(workers: 1)) { lane, apns in
      let waiting = Task { await lane.send(PushSite.apnsMessage(), deadline: .now + .seconds(300)) }
      try await eventually("it waits") { lane.heldCount == 2 }
      waiting.cancel()
      #expect(await waiting.value == .temporary(.cancelled))
    }
  }

  @Test func `a push that is cancelled between two tries leaves at once`() async throws {
    let site = try PushSite()
    try await site.withAPNs { provider, apns in
      apns.service.answer(.answer(429))
      let lane = site.lane(provider, limits: .patient())
      let waiting = Task { await lane.send(PushSite.apnsMessage(), deadline: .now + .seconds(600)) }
      try await eventually("it was tried") { apns.requests.count == 1 }
      waiting.cancel()
      #expect(await waiting.value.word == "temporary")
      #expect(apns.requests.count == 1)
    }
  }

  @Test func `an attempt under way is finished, even if its caller leaves`() async throws {
    let site = try PushSite()
    try await site.withAPNs { provider, apns in
      apns.service.pause(.milliseconds(500))
      let lane = site.lane(provider, limits: .patient())
      let sending = Task { await lane.send(PushSite.apnsMessage(), deadline: .patient) }
      try await eventually("it is asked") { apns.requests.count == 1 }
      sending.cancel()
      #expect(await sending.value.word == "delivered")
    }
  }

  @Test func `a provider that does not answer is spared and probed`() async throws {
    let (site, skipped) = (try PushSite(), SkippedTime())
    try await site.withAPNs { provider, apns in
      let lane = site.lane(provider, limits: .patient(), retries: .none, time: skipped.time)
      apns.service.answerAlways(.answer(503))
      for _ in 0..<3 { _ = await lane.send(PushSite.apnsMessage(), deadline: .now + .seconds(3600)) }
      #expect(!lane.isAvailable)
      #expect(site.log.count("push provider does not take messages") == 1)
      for _ in 0..<10 {
        #expect(await lane.send(PushSite.apnsMessage(), deadline: .now + .seconds(3600)).reason == .halted)
      }
      #expect(apns.requests.count == 3)
      apns.service.answerAlways(.answer(200))
      skipped.skip(PushBreaker.pauseMin)
      #expect(await lane.send(PushSite.apnsMessage(), deadline: .now + .seconds(3600)).word == "delivered")
      #expect(lane.isAvailable)
      #expect(site.log.count("push provider takes messages again") == 1)
      // Neither says whom it was about.
      #expect(site.log.count(PushSite.device) == 0)
    }
  }

  @Test func `refused credentials spare the provider at once`() async throws {
    let site = try PushSite()
    try await site.withAPNs { provider, apns in
      let lane = site.lane(provider, limits: .patient(), time: SkippedTime().time)
      apns.answer(403, reason: "InvalidProviderToken")
      #expect(await lane.send(PushSite.apnsMessage(), deadline: .patient).reason?.word == "InvalidProviderToken")
      #expect(!lane.isAvailable)
    }
  }

  @Test func `an answer about one message does not spare the provider`() async throws {
    let site = try PushSite()
    try await site.withAPNs { provider, apns in
      let lane = site.lane(provider, limits: .patient(), retries: .none)
      for status in [400, 410, 413, 429, 400, 410, 413, 429] { apns.service.answer(.answer(status)) }
      for _ in 0..<8 { _ = await lane.send(PushSite.apnsMessage(), deadline: .patient) }
      #expect(lane.isAvailable)
      #expect(await lane.send(PushSite.apnsMessage(), deadline: .patient).word == "delivered")
    }
  }
}
