import Foundation
import NIOCore
import NIOHTTP1
import RelayCore
import Storage
import SwiftProtobuf
import TestSupport
import TestTags
import Testing
import WireMessages

@testable import Federation

/// A peer's budget here, all of its accounts together (docs/federation.md, "Budgets").
@Suite(.tags(.stores)) struct BudgetTests {
  private let message = "/v1/federation/messages/+14155550177/1/+14155550100"
  private let receipt = "/v1/receipt/+14155550177/1/+14155550100/1"
  private let key = "/v2/federation/key/+14155550100/1"

  @Test func `requests of all kinds share one budget, and no other peer shares it`() async throws {
    try await withPeerClient(buckets: [.peerRequests: Bucket(size: 5, perMinute: 0.01)]) { relay, client in
      #expect(try await client.get("/v1/federation/user_count").status == 200)
      #expect(try await client.get("/v1/federation/attachment/7").status == 200)
      #expect(try await client.get(key).status == 200)
      #expect(try await client.send(.PUT, message, body: #"{"messages":[]}"#).status == 200)
      // A request that cannot be read costs a request too.
      #expect(try await client.send(.PUT, message, body: "{").status == 415)
      let refusals = [
        try await client.get("/v1/federation/user_count"), try await client.get(key),
        try await client.send(.PUT, message, body: #"{"messages":[]}"#),
        try await client.send(.PUT, message, body: "{"), try await client.send(.PUT, receipt),
        try await client.put("/v1/federation/batch", bytes: [], as: "application/x-protobuf"),
        try await client.send(.PUT, "/v1/federation/epoch", body: #"{"epoch":1}"#),
        try await client.get("/v1/federation/peering"),
        try await client.send(.PUT, "/v1/federation/peering", body: "{}"),
      ]
      for refused in refusals {
        #expect(refused.status == 413 && refused.text.hasPrefix("budget-exceeded"))
        // It would take 100 minutes: nobody is sent away for longer than an hour.
        #expect(refused.headers.first(name: "Retry-After") == "3600")
      }
      // A peer that has used its budget up still sees it.
      #expect(try await client.get("/v1/federation/budget").status == 200)
      #expect(relay.intake.calls.count == 1)
      try await withPeer("gamma", of: relay) { gamma in
        let answer = try await gamma.get("/v1/federation/user_count")
        #expect(answer.status == 200)
      }
    }
  }

  @Test func `each recipient of a message or receipt counts`() async throws {
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

  @Test func `bytes count, declared or not`() async throws {
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

  /// They are charged whatever becomes of them, and whether or not they say how long they are.
  @Test(arguments: [true, false])
  func `unreadable bodies are charged as they came`(length: Bool) async throws {
    try await withPeerClient(buckets: [.peerBytes: Bucket(size: 20_000_000, perMinute: 0.0001)]) { relay, client in
      let beta = LimitKey(try name("beta"))
      var left = await relay.coordination.space(in: .peerBytes, key: beta)
      let bodies: [(path: String, mediaType: String, max: Int)] = [
        (message, "application/json", WireLimits.messageRequestBytesMax),
        ("/v1/federation/message", "application/json", WireLimits.messageRequestBytesMax),
        ("/v1/federation/batch", "application/x-protobuf", 5 << 20),
        ("/v1/federation/tokens", "application/json", WireLimits.directoryRequestBytesMax),
        ("/v1/federation/epoch", "application/json", WireLimits.smallRequestBytesMax),
      ]
      for (path, mediaType, max) in bodies {
        let broken = [UInt8](repeating: 0xFF, count: 1000)
        #expect(try await (400..<500).contains(client.put(path, bytes: broken, as: mediaType, length: length).status))
        let afterBroken = await relay.coordination.space(in: .peerBytes, key: beta)
        #expect((999...1001).contains(left - afterBroken), "\(path)")
        let large = [UInt8](repeating: 0xFF, count: max + 1)
        // The connection may be gone before all of it is sent: what came counts.
        _ = try? await client.put(path, bytes: large, as: mediaType, length: length)
        left = await relay.coordination.space(in: .peerBytes, key: beta)
        let charged = afterBroken - left
        #expect(length ? abs(charged - Double(max)) < 1 : charged > Double(max) / 2, "\(path): \(charged)")
      }
    }
  }

  @Test func `a peer without room is refused before its bodies are read`() throws {
    var shortages = BudgetShortages()
    let (beta, gamma) = (try name("beta"), try name("gamma"))
    let start = ContinuousClock.now
    shortages.refused(40, of: .peerBytes, beta, wait: .seconds(90), at: start)
    #expect(shortages.wait(for: 39, of: .peerBytes, beta, at: start) == nil)
    for bytes: Int? in [40, 41, nil] {
      #expect(shortages.wait(for: bytes, of: .peerBytes, beta, at: start) == .seconds(90))
    }
    #expect(shortages.wait(for: 1, of: .peerRequests, beta, at: start) == nil)
    #expect(shortages.wait(for: 40, of: .peerBytes, gamma, at: start) == nil)
    #expect(shortages.wait(for: 40, of: .peerBytes, beta, at: start + .milliseconds(999)) != nil)
    // The limiter is asked again after a second.
    #expect(shortages.wait(for: 40, of: .peerBytes, beta, at: start + .seconds(1)) == nil)
    shortages.refused(1, of: .peerRequests, beta, wait: .milliseconds(5), at: start)
    #expect(shortages.wait(for: 1, of: .peerRequests, beta, at: start + .milliseconds(5)) == nil)
  }

  @Test func `keys are charged before they are drawn`() async throws {
    try await withPeerClient(buckets: [.peerPreKeys: Bucket(size: 4, perMinute: 0.01)]) { _, client in
      // After two, two are left, and the account has three devices. An account that is not there costs one as well.
      let all = "/v2/federation/key/+14155550100/*"
      let nobody = "/v2/federation/key/+14155550199/*"
      var statuses: [Int] = []
      for path in [key, key, all, key, nobody, key] { statuses.append(try await client.get(path).status) }
      #expect(statuses == [200, 200, 413, 200, 404, 413])
    }
  }

  @Test func `once a peer has no room for keys, no account is read for it`() async throws {
    try await withPeerClient(buckets: [.peerPreKeys: Bucket(size: 1, perMinute: 0.01)]) { relay, client in
      #expect(try await client.get(key).status == 200)
      // Each second one request may find out that there is still no room.
      try await eventually("one is refused unread") {
        let before = relay.dispenser.draws
        let status = try await client.get(key).status
        #expect(status == 413)
        return relay.dispenser.draws == before
      }
    }
  }

  /// By its CA: 20 tries, at once or half a minute after the other.
  @Test func `a stranger's tries are limited`() async throws {
    let buckets: [LimiterName: Bucket] = [.peerRequests: Bucket(size: 60_000, perMinute: 0.01)]
    try await withRelay("alpha", buckets: buckets) { relay in
      _ = try await relay.peering().invite()
      #expect(try await tries(21, at: relay, as: "gamma") == Array(repeating: 403, count: 20) + [413])
      #expect(try await tries(1, at: relay, as: "gamma") == [403])
    }
  }

  private func tries(_ count: Int, at relay: TestRelay, as name: String) async throws -> [Int] {
    let guess = Base64.encodeURLSafe([UInt8](repeating: 0, count: 32))
    let body = #"{"secret":"\#(guess)","name":"\#(name)","url":"https://127.0.0.1:1"}"#
    let leaf = try TestAuthority(name).leaf(relay: name)
    return try await withClient(
      to: relay.endpoint.text, leaf.clientConfiguration(trusting: relay.ownAuthority)
    ) { client in
      var statuses: [Int] = []
      for _ in 0..<count {
        statuses.append(try await client.send(.PUT, "/v1/federation/peering", body: body).status)
      }
      return statuses
    }
  }

  @Test func `keys of every device count`() async throws {
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
  @Test func `the refusal for one pair of accounts is of another kind`() async throws {
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

  @Test func `a batch is charged for all its recipients at once`() async throws {
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

  @Test func `a charge larger than the bucket is charged as a full bucket`() async throws {
    let buckets: [LimiterName: Bucket] = [.peerRecipients: Bucket(size: 2, perMinute: 6000)]
    try await withPeerClient(buckets: buckets) { _, client in
      var batch = Relay_Batch()
      batch.handOvers = try (0..<9).map { try handOver(14_155_550_180 + $0) }
      try await eventually("the bucket was full") {
        try await put(batch, client).answers.allSatisfy { $0.status == 200 }
      }
    }
  }

  @Test func `every peer sees its own budget`() async throws {
    try await withPeerClient(scopes: [.messages], buckets: [.peerRecipients: Bucket(size: 50, perMinute: 0.01)]) {
      relay, client in
      #expect(try await client.send(.PUT, receipt).status == 200)
      let answer = try await client.get("/v1/federation/budget")
      #expect(answer.status == 200)
      let text = answer.text
      #expect(text.hasPrefix(#"{"budgets":[{"name":"peer-requests","size":60000,"perMinute":120000,"space":"#))
      #expect(text.contains(#"{"name":"peer-recipients","size":50,"perMinute":0,"space":49}"#))
      for name in [
        "peer-requests", "peer-recipients", "peer-receipts", "peer-bytes", "peer-prekeys", "peer-tokens", "peer-probes",
      ] {
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
