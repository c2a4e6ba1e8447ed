import Foundation
import NIOCore
import NIOHTTP1
import RelayCore
import SwiftProtobuf
import TestSupport
import TestTags
import Testing
import WireMessages

@testable import Federation

/// Batches of hand-overs between relays of this kind (docs/federation-wire.md, "Batches").
@Suite(.tags(.stores)) struct BatchRouteTests {
  private let path = "/v1/federation/batch"
  private let source: UInt64 = 14_155_550_177

  @Test func `every hand-over is answered as its own request would be`() async throws {
    try await withPeerClient { relay, client in
      let stale = try #require(DeviceID(7))
      let missing = try #require(DeviceID(2))
      relay.intake.refuse(try number("+14155550101"), with: .mismatched(missing: [missing], extra: [stale]))
      relay.intake.refuse(try number("+14155550102"), with: .stale([stale]))
      relay.intake.refuse(try number("+14155550103"), with: Problem(.mailboxFull, retryAfter: .milliseconds(1500)))
      relay.intake.refuse(try number("+14155550104"), with: Problem(.notFound))
      var batch = Relay_Batch()
      batch.handOvers = (100...104).map { message(to: 14_155_550_000 + $0, at: 1) }
      batch.handOvers.append(message(from: 14_155_550_111, to: 14_155_550_100, at: 1))  // ours
      batch.handOvers.append(message(from: 12, to: 14_155_550_100, at: 1))  // no number
      batch.handOvers.append(message(to: 14_155_550_100, at: 1, type: 5))
      batch.handOvers.append(receipt(to: 14_155_550_100, at: 77))
      let answer = try await put(batch, client)
      #expect(answer.answers.map(\.status) == [200, 409, 410, 413, 404, 403, 404, 415, 200])
      #expect(answer.answers[1].missingDevices == [2] && answer.answers[1].extraDevices == [7])
      #expect(answer.answers[2].staleDevices == [7])
      #expect(answer.answers.map(\.retryAfterSeconds) == [0, 0, 0, 2, 0, 0, 0, 0, 0])
      // The same, one by one.
      for (handOver, told) in zip(batch.handOvers, answer.answers).prefix(6) {
        let path = "/v1/federation/messages/+\(handOver.source)/1/+\(handOver.destination)"
        let alone = try await client.send(.PUT, path, body: #"{"timestamp":1,"messages":[{"type":1,"body":"AQ"}]}"#)
        #expect(alone.status == Int(told.status))
      }
      #expect(relay.intake.receipts.map(\.timestamp) == [Timestamp(millis: 77)])
      #expect(relay.intake.calls.count == 10)
      let destination = try number("+14155550100")
      let accepted = try #require(relay.intake.calls.first { $0.submission.destination == destination })
      #expect(accepted.origin == .peer(try name("beta"), source: DeviceAddress(try number("+14155550177"), .master)))
      #expect(accepted.submission.messages.map(\.body) == [[1]])
      #expect(accepted.submission.timestamp == Timestamp(millis: 1))
    }
  }

  @Test func `a message from a device of the first generation is for device one`() async throws {
    try await withPeerClient { relay, client in
      var handOver = message(to: 14_155_550_100, at: 0)
      handOver.coversMasterOnly = true
      var batch = Relay_Batch()
      batch.handOvers = [handOver]
      _ = try await put(batch, client)
      #expect(relay.intake.calls.map(\.submission.coverage) == [.masterDevice])
      #expect(relay.intake.calls.map(\.submission.timestamp) == [nil])
    }
  }

  @Test func `between two accounts, the order is kept`() async throws {
    try await withPeerClient { relay, client in
      var batch = Relay_Batch()
      for time in 1...60 {
        for to in 0..<4 { batch.handOvers.append(message(to: 14_155_550_100 + UInt64(to), at: Int64(time))) }
      }
      let answer = try await put(batch, client)
      #expect(answer.answers.allSatisfy { $0.status == 200 })
      let orders = Dictionary(grouping: relay.intake.calls, by: \.submission.destination)
      #expect(orders.count == 4)
      for calls in orders.values { #expect(calls.map { $0.submission.timestamp?.millis } == (1...60).map { $0 }) }
    }
  }

  @Test func `in order, nothing of a source overtakes a message that was put off`() async throws {
    try await withPeerClient { relay, client in
      let (busy, gone) = (try number("+14155550100"), try number("+14155550101"))
      relay.intake.refuse(busy, with: Problem(.unavailable, retryAfter: .seconds(7)))
      relay.intake.refuse(gone, with: Problem(.notFound))
      var batch = Relay_Batch()
      for time: Int64 in 1...3 {
        batch.handOvers += [message(to: 14_155_550_100, at: time), message(to: 14_155_550_101, at: time)]
      }
      batch.handOvers.append(message(from: 14_155_550_178, to: 14_155_550_100, at: 9))
      batch.handOvers.append(receipt(to: 14_155_550_100, at: 77))
      // A peer that has not asked for it: each by itself.
      _ = try await put(batch, client)
      #expect(relay.intake.calls.count == 7)
      for terms in [BatchTerms.ordered, .waited] {
        let before = relay.intake.calls.count
        (batch.inOrder, batch.waited) = (terms.isInOrder, terms.hasWaited)
        let answer = try await put(batch, client)
        #expect(answer.answers.map(\.status) == [503, 404, 503, 404, 503, 404, 503, 200])
        #expect(answer.answers[4].retryAfterSeconds == 7)
        let asked = relay.intake.calls[before...].filter { $0.submission.destination == busy }
        // The first of either source.
        #expect(Set(asked.map { $0.submission.timestamp?.millis }) == [1, 9] && asked.count == 2)
        #expect(relay.intake.calls.count == before + 5)
      }
    }
  }

  @Test func `messages that waited for one destination are taken in order, from all senders`() async throws {
    try await withPeerClient { relay, client in
      var batch = Relay_Batch()
      (batch.inOrder, batch.waited) = (true, true)
      for time: Int64 in 1...60 {
        batch.handOvers.append(message(from: 14_155_550_170 + UInt64(time % 5), to: 14_155_550_100, at: time))
      }
      let answer = try await put(batch, client)
      #expect(answer.answers.allSatisfy { $0.status == 200 })
      #expect(relay.intake.calls.map { $0.submission.timestamp?.millis } == (1...60).map { $0 })
    }
  }

  @Test func `a batch in order puts off messages that it has no time for`() async throws {
    try await withPeerClient(laneTimeMax: .zero) { relay, client in
      var batch = Relay_Batch()
      batch.handOvers = (1...4).map { message(to: 14_155_550_100, at: $0) }
      batch.handOvers.append(message(to: 14_155_550_101, at: 5))
      // A peer that has not asked for it waits for all.
      let unordered = try await put(batch, client)
      #expect(unordered.answers.map(\.status) == [200, 200, 200, 200, 200])
      for terms in [BatchTerms.ordered, .waited] {
        let before = relay.intake.calls.count
        (batch.inOrder, batch.waited) = (terms.isInOrder, terms.hasWaited)
        let answer = try await put(batch, client)
        // One of each destination all the same.
        #expect(answer.answers.map(\.status) == [200, 503, 503, 503, 200])
        #expect(answer.answers.map(\.retryAfterSeconds) == [0, 1, 1, 1, 0])
        #expect(relay.intake.calls.count == before + 2)
      }
    }
  }

  /// Its client was charged when the peer accepted it.
  @Test func `messages that waited have a limiter of their own`() async throws {
    let buckets: [LimiterName: Bucket] = [
      .messages: Bucket(size: 2, perMinute: 0.001), .messagesWaited: Bucket(size: 3, perMinute: 0.001),
    ]
    try await withPeerClient(buckets: buckets) { _, client in
      var batch = Relay_Batch()
      batch.handOvers = (1...4).map { message(to: 14_155_550_100, at: $0) }
      let straight = try await put(batch, client)
      #expect(straight.answers.map(\.status) == [200, 200, 503, 503])
      (batch.inOrder, batch.waited) = (true, true)
      let waited = try await put(batch, client)
      #expect(waited.answers.map(\.status) == [200, 200, 200, 503])
    }
  }

  @Test func `a malformed batch is refused as a whole`() async throws {
    try await withPeerClient { relay, client in
      for bytes: [UInt8] in [[1], [0x0A, 5, 1], [0x0A, 2, 0x3A, 9], Array(#"{"a":1}"#.utf8)] {
        #expect(try await client.put(path, bytes: bytes, as: "application/x-protobuf").status == 415, "\(bytes)")
      }
      #expect(try await client.put(path, bytes: [], as: "application/json").status == 415)
      var many = Relay_Batch()
      many.handOvers = Array(repeating: message(to: 14_155_550_100, at: 1), count: WireLimits.handOversPerBatchMax + 1)
      #expect(try await client.put(path, bytes: many.serializedBytes(), as: "application/x-protobuf").status == 413)
      let large = [UInt8](repeating: 0, count: 6 << 20)
      #expect(try await client.put(path, bytes: large, as: "application/x-protobuf").status == 413)
      #expect(try await client.get(path).status == 405)
      #expect(relay.intake.calls.isEmpty)
      let none = try await client.put(path, bytes: [], as: "application/x-protobuf; charset=x", length: false)
      #expect(none.status == 200 && none.body.readableBytes == 0)
      #expect(none.headers.first(name: "Content-Type") == "application/x-protobuf")
    }
  }

  /// Two bytes of a batch could become a hundred of memory.
  @Test func `many empty messages are counted before they are made`() async throws {
    let empty = [UInt8](repeating: 0, count: 1_000_000).enumerated().map { $0.offset % 2 == 0 ? UInt8(0x3A) : 0 }
    let handOver = [0x0A, 0xC0, 0x84, 0x3D] + empty
    let size = try #require(BatchSize(handOver))
    #expect(size.handOvers == 1 && size.messages == 500_000)
    #expect(throws: Problem(.bodyTooLarge)) { try BatchCodec.decode(handOver) }
    let many = [[UInt8]](repeating: [0x0A, 0], count: 300).flatMap(\.self)
    #expect(throws: Problem(.bodyTooLarge)) { try BatchCodec.decode(many) }
  }

  @Test func `random bytes are read or refused`() throws {
    var generator = SystemRandomNumberGenerator()
    for _ in 0..<20_000 {
      let bytes = (0..<Int.random(in: 0...40, using: &generator)).map { _ -> UInt8 in
        // Often what a batch is made of.
        if Bool.random(using: &generator) { return [0x0A, 0x3A, 0x08, 2].randomElement(using: &generator) ?? 0 }
        return UInt8.random(in: 0...255, using: &generator)
      }
      do throws(Problem) {
        let decoded = try BatchCodec.decode(bytes)
        #expect(decoded.handOvers.count <= bytes.count)
      } catch {
        #expect(error.kind == .malformedBody || error.kind == .bodyTooLarge)
      }
    }
  }

  @Test func `a batch needs the scope of messages`() async throws {
    try await withPeerClient(scopes: [.keys, .directory, .attachments, .lookup]) { _, client in
      let answer = try await client.put(path, bytes: [], as: "application/x-protobuf")
      #expect(answer.status == 403 && answer.text.hasPrefix("scope-refused"))
    }
  }

  // MARK: Support

  private func put(_ batch: Relay_Batch, _ client: RawClient) async throws -> Relay_BatchAnswer {
    let answer = try await client.put(path, bytes: batch.serializedBytes(), as: "application/x-protobuf")
    #expect(answer.status == 200)
    return try Relay_BatchAnswer(serializedBytes: Array(answer.body.readableBytesView))
  }

  private func message(
    from: UInt64? = nil, to destination: UInt64, at time: Int64, type: UInt32 = 1
  ) -> Relay_HandOver {
    var message = Relay_HandOver.Message()
    message.type = type
    message.device = 1
    message.body = Data([1])
    var handOver = Relay_HandOver()
    handOver.source = from ?? source
    handOver.sourceDevice = 1
    handOver.destination = destination
    if time != 0 { handOver.timestamp = time }
    handOver.messages = [message]
    return handOver
  }

  private func receipt(to destination: UInt64, at time: Int64) -> Relay_HandOver {
    var handOver = Relay_HandOver()
    handOver.source = source
    handOver.sourceDevice = 1
    handOver.destination = destination
    handOver.timestamp = time
    handOver.isReceipt = true
    return handOver
  }
}
