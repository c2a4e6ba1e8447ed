import TestSupport
import TestTags
import Testing

@testable import Push

/// The fate of pushes whose connection to Apple ends under them (push gateway reference, 4.7).
@Suite(.tags(.unit)) struct LostConnectionTests {
  private static let count = 40

  /// Forty pushes that wait for their answers on the one connection that there is, and `body` meanwhile.
  /// - Returns: what became of them.
  private func underWay(
    _ lane: PushLane, _ apns: FakeAPNs, _ body: () async throws -> Void
  ) async throws -> [PushOutcome] {
    // A connection and a token are there: stream 1.
    #expect(await lane.send(PushSite.apnsMessage(), deadline: .patient).word == "delivered")
    apns.service.hold()
    let before = apns.requests.count
    let pushes = (0..<Self.count).map { _ in
      Task { await lane.send(PushSite.apnsMessage(), deadline: .patient) }
    }
    try await eventually("all are under way") { apns.requests.count == before + Self.count }
    #expect(apns.service.connectionCount == 1)
    try await body()
    var outcomes: [PushOutcome] = []
    for push in pushes { outcomes.append(await push.value) }
    return outcomes
  }

  private func lane(_ site: PushSite, _ provider: APNsProvider, retries: PushRetries = .apns) -> PushLane {
    site.lane(provider, limits: .patient(workers: 100, perDestination: 100), retries: retries)
  }

  @Test func `pushes of a lost connection are sent again on another, and the loss counts once`() async throws {
    let site = try PushSite()
    try await site.withAPNs { provider, apns in
      let lane = lane(site, provider)
      let outcomes = try await underWay(lane, apns) {
        apns.service.dropConnections()
        try await eventually("all are sent again") { apns.requests.count == 1 + 2 * Self.count }
        apns.service.release()
      }
      #expect(outcomes.allSatisfy { $0.word == "delivered" }, "\(outcomes)")
      #expect(lane.isAvailable && apns.service.acceptedCount == 2)
      #expect(site.log.count("push provider does not take messages") == 0)
    }
  }

  /// Two lost connections, each with all of the pushes on it, are two failures: the third opens the breaker.
  @Test func `three lost connections in a row are three failures`() async throws {
    let site = try PushSite()
    try await site.withAPNs { provider, apns in
      let lane = lane(site, provider)
      let outcomes = try await underWay(lane, apns) {
        for round in 2...3 {
          apns.service.dropConnections()
          try await eventually("all are sent again") { apns.requests.count == 1 + round * Self.count }
          #expect(lane.isAvailable)
        }
        apns.service.dropConnections()
      }
      #expect(outcomes.allSatisfy { [PushReason.lost, .lostToo].contains($0.reason) }, "\(outcomes)")
      #expect(outcomes.count { $0.reason == .lost } == 1)
      #expect(!lane.isAvailable && apns.requests.count == 1 + 3 * Self.count)
    }
  }

  /// Stream 41 is the twentieth of the forty.
  @Test(arguments: [false, true])
  func `after a farewell, the streams above the last are sent again`(isFault: Bool) async throws {
    let site = try PushSite()
    try await site.withAPNs { provider, apns in
      let lane = lane(site, provider)
      let outcomes = try await underWay(lane, apns) {
        apns.service.announceEnd(last: 41, isFault: isFault)
        try await eventually("the others are sent again") { apns.requests.count == 1 + Self.count + 20 }
        apns.service.release()
      }
      #expect(outcomes.allSatisfy { $0.word == "delivered" }, "\(outcomes)")
      #expect(apns.requests.count == 1 + Self.count + 20 && apns.service.acceptedCount == 2)
      #expect(lane.isAvailable)
    }
  }

  @Test func `a farewell is no failure, and a fault is one`() async throws {
    for isFault in [false, true] {
      let site = try PushSite()
      try await site.withAPNs { provider, apns in
        let lane = lane(site, provider, retries: .none)
        // The pushes that were not begun, and those that were under way when the connection went.
        let outcomes = try await underWay(lane, apns) {
          apns.service.announceEnd(last: 41, isFault: isFault)
          try await eventually("the others have ended") { lane.heldCount == 20 }
          apns.service.dropConnections()
        }
        let reasons = outcomes.map(\.reason)
        #expect(reasons.count { $0 == .lost } == (isFault ? 1 : 0), "\(reasons)")
        #expect(reasons.count { $0 == .lostToo || $0 == .notTaken } == (isFault ? 39 : 40), "\(reasons)")
        #expect(lane.isAvailable)
      }
    }
  }
}
