import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Push

/// A provider in trouble slows no other.
@Suite(.tags(.unit)) struct IsolationTests {
  private static let stuckCount = 100

  /// Messages to a service that answers nothing, and `body` while they are all held.
  private func whileStuck(
    _ lane: PushLane, _ message: PushMessage, _ body: () async throws -> Void
  ) async throws {
    let stuck = (0..<Self.stuckCount).map { _ in
      Task { await lane.send(message, deadline: .now + .seconds(300)) }
    }
    try await eventually("all are held") { lane.heldCount == Self.stuckCount }
    try await body()
    #expect(lane.heldCount == Self.stuckCount)
    for task in stuck { task.cancel() }
  }

  @Test func `a live provider is unharmed by a dead one`() async throws {
    let site = try PushSite()
    try await site.withFCM { dead, fcm in
      fcm.service.answerAlways(.silence)
      let deadLane = site.lane(dead, .fcm, limits: .patient(), retries: .fcm)
      try await site.withAPNs { live, apns in
        let liveLane = site.lane(live, limits: .patient())
        try await whileStuck(deadLane, PushSite.fcmMessage()) {
          try await eventually("its workers are all taken") { fcm.requests.count == 20 }
          for _ in 0..<Self.stuckCount {
            #expect(await liveLane.send(PushSite.apnsMessage(), deadline: .patient).word == "delivered")
          }
          #expect(liveLane.isAvailable)
          // The dead one had no more of anything than its workers.
          #expect(fcm.requests.count == 20)
        }
        #expect(apns.requests.count == Self.stuckCount)
        #expect(apns.faults == [])
      }
    }
  }

  @Test func `a live push service is unharmed by a dead one of the same app`() async throws {
    let site = try PushSite()
    try await site.withWebPush { provider, live in
      let dead = try await FakeService(site.files)
      dead.answerAlways(.silence)
      let lane = site.lane(provider, .webPush, limits: .patient(workers: 4, perDestination: 2), retries: .webPush)
      let lost = try PushSite.webMessage(TestSubscription(endpoint: "https://127.0.0.1:\(dead.port)/x"))
      let message = try PushSite.webMessage(live.subscribe())
      try await whileStuck(lane, lost) {
        for _ in 0..<20 { #expect(await lane.send(message, deadline: .patient).word == "delivered") }
        #expect(dead.requests.count <= 2)
      }
      try await dead.close()
    }
  }

  @Test func `a failing push service alone is spared`() async throws {
    let site = try PushSite()
    try await site.withWebPush { provider, live in
      let dead = try await FakeService(site.files)
      dead.answerAlways(.answer(500))
      let lane = site.lane(provider, .webPush, limits: .patient(), retries: .none, time: SkippedTime().time)
      let lost = try PushSite.webMessage(TestSubscription(endpoint: "https://127.0.0.1:\(dead.port)/x"))
      for _ in 0..<5 { _ = await lane.send(lost, deadline: .patient) }
      #expect(dead.requests.count == 3)
      let message = try PushSite.webMessage(live.subscribe())
      #expect(await lane.send(message, deadline: .patient).word == "delivered")
      try await dead.close()
    }
  }
}
