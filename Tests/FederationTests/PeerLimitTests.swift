import NIOCore
import NIOHTTP1
import RelayCore
import Synchronization
import TestSupport
import TestTags
import Testing

/// A peer's rights, and how often it may use them: its own limits, that it shares with no other.
@Suite(.tags(.stores)) struct PeerLimitTests {
  /// By the account that received, and refused with 503 as messages are.
  @Test func `a peer's receipts are limited`() async throws {
    try await withPeerClient(buckets: [.receipts: Bucket(size: 2, perMinute: 1)]) { relay, client in
      for time in 1...2 {
        #expect(try await client.send(.PUT, "/v1/receipt/+14155550177/1/+14155550100/\(time)").status == 200)
      }
      let answer = try await client.send(.PUT, "/v1/receipt/+14155550177/2/+14155550122/3")
      #expect(answer.status == 503)
      #expect(answer.headers.first(name: "Retry-After") != nil)
      #expect(try await client.send(.PUT, "/v1/receipt/+14155550178/1/+14155550100/4").status == 200)
      #expect(relay.intake.receipts.count == 3)
    }
  }

  /// Any peer may claim any number that is not ours.
  @Test func `a peer cannot use up the limits of another's accounts`() async throws {
    let one = Bucket(size: 1, perMinute: 0.001)
    try await withPeerClient(buckets: [.receipts: one, .messages: one, .preKeys: Bucket(size: 0.1, perMinute: 0.001)]) {
      relay, beta in
      try await withPeer("gamma", of: relay) { gamma in
        for client in [beta, gamma] {
          let message = "/v1/federation/messages/+14155550177/1/+14155550100"
          let receipt = "/v1/receipt/+14155550177/1/+14155550100/1"
          let key = "/v2/federation/key/+14155550100/1"
          var statuses: [Int] = []
          for _ in 1...2 {
            statuses.append(try await client.send(.PUT, message, body: #"{"messages":[]}"#).status)
            statuses.append(try await client.send(.PUT, receipt).status)
            statuses.append(try await client.get(key).status)
          }
          #expect(statuses == [200, 200, 200, 503, 503, 413])
        }
      }
    }
  }

  /// A bundle is charged by the most messages that name one device.
  @Test func `messages are limited, however many a bundle holds`() async throws {
    try await withPeerClient(buckets: [.messages: Bucket(size: 4, perMinute: 0.001)]) { relay, client in
      func put(_ devices: [Int]) async throws -> Int {
        let messages = devices.map { #"{"type":1,"destinationDeviceId":\#($0),"body":"AQID"}"# }
        return try await client.send(
          .PUT, "/v1/federation/messages/+14155550177/1/+14155550100",
          body: #"{"messages":[\#(messages.joined(separator: ","))]}"#
        ).status
      }
      var statuses: [Int] = []
      for devices in [[1, 1, 1, 2, 2], [1, 1], [1, 2, 3], []] { statuses.append(try await put(devices)) }
      #expect(statuses == [200, 503, 200, 503])
      #expect(relay.intake.calls.count == 2)
    }
  }

  /// 413 is what the peer passes on to its client (reference 1.13.4).
  @Test func `drawing the keys of one device is limited to ten clients' shares`() async throws {
    try await withPeerClient(buckets: [.preKeys: Bucket(size: 0.25, perMinute: 0.1)]) { _, client in
      let path = "/federation/key/+14155550100"
      // One key in any form.
      #expect(try await client.get("/v1\(path)").status == 200)
      #expect(try await client.get("/v2\(path)/1").status == 200)
      for form in ["/v1\(path)", "/v1\(path)/1", "/v2\(path)/1/"] {
        let answer = try await client.get(form)
        #expect(answer.status == 413 && answer.text.hasPrefix("rate-limited"))
        #expect(answer.headers.first(name: "Retry-After") != nil)
      }
      #expect(try await client.get("/v2\(path)/2").status == 200)
      #expect(try await client.get("/v2\(path)/*").status == 200)
    }
  }

  @Test func `epochs reach the store once a second`() async throws {
    let epochs = CountingEpochs()
    try await withPeerClient(epochs: epochs) { relay, client in
      func put(_ epoch: Int) async throws -> String {
        try await client.send(.PUT, "/v1/federation/epoch", body: #"{"epoch":\#(epoch)}"#).text
      }
      let start = ContinuousClock.now
      for epoch in 1...100 { #expect(try await put(epoch) == #"{"epoch":\#(epoch - 1)}"#) }
      let seconds = (ContinuousClock.now - start) / .seconds(1)
      #expect(epochs.calls >= 1 && Double(epochs.calls) <= seconds + 1)
      // An epoch that another process was told is seen within a second, and one that was told here is kept.
      epochs.set(500)
      try await eventually("the store is asked again") { try await put(3) == #"{"epoch":500}"# }
      #expect(try await put(700) == #"{"epoch":500}"#)
      try await eventually("the highest is stored") {
        _ = try await put(0)
        return epochs.highest == 700
      }
      try await withPeer("gamma", of: relay) { gamma in
        // Each peer's own.
        let calls = epochs.calls
        _ = try await gamma.send(.PUT, "/v1/federation/epoch", body: #"{"epoch":1}"#)
        #expect(epochs.calls >= calls + 1)
      }
    }
  }
}

/// One peer's epoch, and how often it was asked for.
private final class CountingEpochs: EpochStore {
  private let state = Mutex<(highest: Int64, calls: Int)>((0, 0))
  var highest: Int64 { state.withLock { $0.highest } }
  var calls: Int { state.withLock { $0.calls } }
  func set(_ epoch: Int64) { state.withLock { $0.highest = epoch } }

  func rememberEpoch(_ epoch: Int64, of peer: RelayName) async throws(StoreError) -> Int64? {
    state.withLock { state in
      defer { state = (max(state.highest, epoch), state.calls + 1) }
      return state.highest
    }
  }
  func advanceEpoch(atLeast floor: Int64) async throws(StoreError) -> (before: Int64, after: Int64) { (floor, floor) }
  func setAsideOneTimePreKeys(epoch floor: Int64, by word: RestoreWord, behind: Duration) async throws(StoreError) {}
  func epoch() async throws(StoreError) -> Int64 { 0 }
  func noteRestoreClaim(by peer: RelayName?, behind: Duration) async throws(StoreError) {}
  func noteHeldBack(_ isHeldBack: Bool) async throws(StoreError) {}
  func restoreNotes() async throws(StoreError) -> RestoreNotes {
    RestoreNotes(setAside: nil, claim: nil, heldBack: nil)
  }
}
