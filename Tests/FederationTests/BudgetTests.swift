import Foundation
import NIOCore
import NIOHTTP1
import RelayCore
import SwiftProtobuf
import TestSupport
import Testing
import WireMessages

/// What a peer may do here, all of its accounts together (docs/federation.md, "Budgets").
@Suite struct BudgetTests {
  private let message = "/v1/federation/messages/+14155550177/1/+14155550100"
  private let receipt = "/v1/receipt/+14155550177/1/+14155550100/1"
  private let key = "/v2/federation/key/+14155550100/1"

  @Test func requestsOfAllKindsShareOneBudgetThatNoOtherPeerShares() async throws {
    try await withPeerClient(buckets: [.peerRequests: Bucket(size: 5, perMinute: 0.01)]) { relay, client in
      #expect(try await client.get("/v1/federation/user_count").status == 200)
      #expect(try await client.get("/v1/federation/attachment/7").status == 200)
      #expect(try await client.get(key).status == 200)
      #expect(try await client.send(.PUT, message, body: #"{"messages":[]}"#).status == 200)
      // What cannot be read costs a request too.
      #expect(try await client.send(.PUT, message, body: "{").status == 415)
      let refusals = [
        try await client.get("/v1/federation/user_count"), try await client.get(key),
        try await client.send(.PUT, message, body: #"{"messages":[]}"#),
        try await client.send(.PUT, message, body: "{"), try await client.send(.PUT, receipt),
        try await client.put("/v1/federation/batch", bytes: [], as: "application/x-protobuf"),
        try await client.send(.PUT, "/v1/federation/epoch", body: #"{"epoch":1}"#),
      ]
      for refused in refusals {
        #expect(refused.status == 413 && refused.text.hasPrefix("budget-exceeded"))
        // It would take 100 minutes: nobody is sent away for longer than an hour.
        #expect(refused.headers.first(name: "Retry-After") == "3600")
      }
      // Who has used it up still sees what it is, and what the peering is.
      #expect(try await client.get("/v1/federation/budget").status == 200)
      #expect(try await client.get("/v1/federation/peering").status == 200)
      #expect(relay.intake.calls.count == 1)
      try await withPeer("gamma", of: relay) { gamma in
        let answer = try await gamma.get("/v1/federation/user_count")
        #expect(answer.status == 200)
      }
    }
  }

  @Test func recipientsAreMessagesAndReceipts() async throws {
    try await withPeerClient(buckets: [.peerRecipients: Bucket(size: 5, perMinute: 0.01)]) { relay, client in
      let three = (1...3).map { #"{"type":1,"destinationDeviceId":\#($0),"body":"AQID"}"# }.joined(separator: ",")
      #expect(try await client.send(.PUT, message, body: #"{"messages":[\#(three)]}"#).status == 200)
      #expect(try await client.send(.PUT, receipt).status == 200)
      let refused = try await client.send(.PUT, message, body: #"{"messages":[\#(three)]}"#)
      #expect(refused.status == 413 && refused.text.hasPrefix("budget-exceeded"))
      #expect(try await client.send(.PUT, receipt).status == 200)
      #expect(try await client.send(.PUT, receipt).status == 413)
      #expect(try await client.get(key).status == 200)
      #expect(relay.intake.calls.count == 1 && relay.intake.receipts.count == 2)
    }
  }

  @Test func bytesCountWhetherTheyAreDeclaredOrNot() async throws {
    try await withPeerClient(buckets: [.peerBytes: Bucket(size: 100, perMinute: 0.01)]) { relay, client in
      let body = Array((#"{"messages":[]}"# + String(repeating: " ", count: 25)).utf8)
      #expect(try await client.put(message, bytes: body, as: "application/json").status == 200)
      #expect(try await client.put(message, bytes: body, as: "application/json", length: false).status == 200)
      for length in [true, false] {
        let refused = try await client.put(message, bytes: body, as: "application/json", length: length)
        #expect(refused.status == 413 && refused.text.hasPrefix("budget-exceeded"))
        let batch = try await client.put(
          "/v1/federation/batch", bytes: body, as: "application/x-protobuf", length: length)
        #expect(batch.status == 413 && batch.text.hasPrefix("budget-exceeded"))
      }
      #expect(try await client.send(.PUT, receipt).status == 200)
      #expect(relay.intake.calls.count == 2)
    }
  }

  @Test func keysOfEveryDeviceCount() async throws {
    try await withPeerClient(buckets: [.peerPreKeys: Bucket(size: 4, perMinute: 0.01)]) { _, client in
      // Three devices.
      #expect(try await client.get("/v2/federation/key/+14155550100/*").status == 200)
      #expect(try await client.get("/v1/federation/key/+14155550100").status == 200)
      for path in ["/v1/federation/key/+14155550100", "/v1/federation/key/+14155550100/2", key] {
        let refused = try await client.get(path)
        #expect(refused.status == 413 && refused.text.hasPrefix("budget-exceeded"))
      }
    }
  }

  /// The limiter of one pair of accounts is another thing, and refuses with 503 as ever (reference 1.13.2).
  @Test func whatOnePairOfAccountsMayDoIsRefusedOtherwise() async throws {
    let buckets: [LimiterName: Bucket] = [.messages: Bucket(size: 2, perMinute: 0.01)]
    try await withPeerClient(buckets: buckets) { relay, client in
      for status in [200, 200, 503] {
        #expect(try await client.send(.PUT, message, body: #"{"messages":[]}"#).status == status)
      }
      var batch = Relay_Batch()
      batch.handOvers = try [handOver(14_155_550_177), handOver(14_155_550_178)]
      let answer = try await put(batch, client)
      #expect(answer.answers.map(\.status) == [503, 200])
      #expect(answer.answers[0].retryAfterSeconds > 0)
      #expect(relay.intake.calls.count == 3)
    }
  }

  @Test func aBatchIsChargedForAllItsRecipientsAtOnce() async throws {
    try await withPeerClient(buckets: [.peerRecipients: Bucket(size: 5, perMinute: 0.01)]) { relay, client in
      var batch = Relay_Batch()
      batch.handOvers = try [handOver(14_155_550_177), handOver(14_155_550_178), handOver(14_155_550_179)]
      #expect(try await put(batch, client).answers.map(\.status) == [200, 200, 200])
      let refused = try await put(batch, client)
      #expect(refused.answers.map(\.status) == [413, 413, 413])
      #expect(refused.answers.allSatisfy { $0.retryAfterSeconds == 3600 })
      batch.handOvers.removeLast()
      #expect(try await put(batch, client).answers.map(\.status) == [200, 200])
      #expect(relay.intake.calls.count == 5)
    }
  }

  @Test func whatNoBucketHoldsIsChargedAsAFullOne() async throws {
    let buckets: [LimiterName: Bucket] = [.peerRecipients: Bucket(size: 2, perMinute: 6000)]
    try await withPeerClient(buckets: buckets) { _, client in
      var batch = Relay_Batch()
      batch.handOvers = try (0..<9).map { try handOver(14_155_550_180 + $0) }
      try await eventually("the bucket was full") {
        try await put(batch, client).answers.allSatisfy { $0.status == 200 }
      }
    }
  }

  @Test func everyPeerSeesItsOwnBudget() async throws {
    try await withPeerClient(scopes: [.messages], buckets: [.peerRecipients: Bucket(size: 50, perMinute: 0.01)]) {
      relay, client in
      #expect(try await client.send(.PUT, receipt).status == 200)
      let answer = try await client.get("/v1/federation/budget")
      #expect(answer.status == 200)
      let text = answer.text
      #expect(text.hasPrefix(#"{"budgets":[{"name":"peer-requests","size":60000,"perMinute":120000,"space":"#))
      #expect(text.contains(#"{"name":"peer-recipients","size":50,"perMinute":0,"space":49}"#))
      for name in ["peer-requests", "peer-recipients", "peer-bytes", "peer-prekeys", "peer-tokens", "peer-probes"] {
        #expect(text.contains(#""name":"\#(name)""#))
      }
      #expect(try await client.send(.PUT, "/v1/federation/budget").status == 405)
      try await withPeer("gamma", of: relay) { gamma in
        let whole = try await gamma.get("/v1/federation/budget").text
        #expect(whole.contains(#""perMinute":0,"space":50}"#))
      }
      try await eventually("the next second shows what was done meanwhile") {
        _ = try await client.send(.PUT, receipt)
        return try await !client.get("/v1/federation/budget").text.contains(#""space":49}"#)
      }
    }
  }

  // MARK: Support

  private func put(_ batch: Relay_Batch, _ client: RawClient) async throws -> Relay_BatchAnswer {
    let answer = try await client.put(
      "/v1/federation/batch", bytes: batch.serializedBytes(), as: "application/x-protobuf")
    #expect(answer.status == 200)
    return try Relay_BatchAnswer(serializedBytes: Array(answer.body.readableBytesView))
  }

  private func handOver(_ source: UInt64) throws -> Relay_HandOver {
    var message = Relay_HandOver.Message()
    message.type = 1
    message.device = 1
    var handOver = Relay_HandOver()
    handOver.source = source
    handOver.sourceDevice = 1
    handOver.destination = 14_155_550_100
    handOver.timestamp = 1
    handOver.messages = [message]
    return handOver
  }
}
