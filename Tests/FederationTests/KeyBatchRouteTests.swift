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

/// Draws of prekeys that travel together, over real TLS (docs/federation-wire.md, "Draws together").
@Suite(.tags(.stores)) struct KeyBatchRouteTests {
  private let path = KeyBatchCodec.path

  @Test func `every draw is answered as its own request would be`() async throws {
    try await withPeerClient { _, client in
      let asked: [(account: UInt64, device: UInt32, isSigned: Bool)] = [
        (14_155_550_100, 0, true), (14_155_550_100, 0, false), (14_155_550_100, 2, true), (14_155_550_100, 9, true),
        (14_155_550_199, 0, true), (14_155_550_100, 3, false), (12, 1, true), (14_155_550_100, .max, true),
      ]
      var batch = Relay_KeyBatch()
      batch.draws = asked.map { asked in
        .with { ($0.account, $0.device, $0.isSigned) = (asked.account, asked.device, asked.isSigned) }
      }
      let answer = try await put(batch, client)
      #expect(answer.answers.map(\.status) == [200, 200, 200, 404, 404, 404, 404, 404])
      for (asked, told) in zip(asked, answer.answers) {
        let device = asked.device == 0 ? "*" : "\(asked.device)"
        let alone = try await client.get("/v\(asked.isSigned ? 2 : 1)/federation/key/+\(asked.account)/\(device)")
        #expect(alone.status == Int(told.status))
      }
      #expect(answer.answers[0].devices.map(\.device) == [1, 2, 3])
      #expect(answer.answers[0].identityKey == "identity")
      #expect(answer.answers[0].devices.map(\.hasSignedPreKey) == [true, false, true])
      #expect(answer.answers[1].devices.map(\.preKey.id) == [7, 14])
      #expect(answer.answers[2].devices.map(\.registrationID) == [102])
    }
  }

  @Test func `a malformed batch of draws is refused as a whole`() async throws {
    try await withPeerClient { _, client in
      for bytes: [UInt8] in [[1], [0x0A, 5, 1], [0x0A, 1, 0x22], Array(#"{"a":1}"#.utf8)] {
        #expect(try await client.put(path, bytes: bytes, as: KeyBatchCodec.mediaType).status == 415, "\(bytes)")
      }
      #expect(try await client.put(path, bytes: [], as: "application/json").status == 415)
      let many = [[UInt8]](repeating: [0x0A, 0], count: KeyBatchCodec.drawsMax + 1).flatMap(\.self)
      #expect(try await client.put(path, bytes: many, as: KeyBatchCodec.mediaType).status == 413)
      let large = [UInt8](repeating: 0, count: KeyBatchCodec.bodyBytesMax + 1)
      #expect(try await client.put(path, bytes: large, as: KeyBatchCodec.mediaType).status == 413)
      let read = try await client.get(path)
      #expect(read.status == 405)
    }
  }

  @Test func `draws together need the scope of keys`() async throws {
    try await withPeerClient(scopes: [.messages, .directory, .attachments, .lookup]) { _, client in
      let answer = try await client.put(path, bytes: [], as: KeyBatchCodec.mediaType)
      #expect(answer.status == 403 && answer.text.hasPrefix("scope-refused"))
    }
  }

  @Test func `batches of draws that are under way are bounded`() async throws {
    try await withPeerClient { relay, client in
      var batch = Relay_KeyBatch()
      batch.draws = [.with { ($0.account, $0.device, $0.isSigned) = (14_155_550_100, 1, true) }]
      let bytes: [UInt8] = try batch.serializedBytes()
      relay.dispenser.hold(true)
      try await withThrowingTaskGroup(of: Int.self) { group in
        defer { relay.dispenser.hold(false) }
        for _ in 0..<32 {
          group.addTask { try await client.put(path, bytes: bytes, as: KeyBatchCodec.mediaType).status }
        }
        try await eventually("all are under way") { relay.dispenser.draws == 32 }
        let refused = try await client.put(path, bytes: bytes, as: KeyBatchCodec.mediaType)
        #expect(refused.status == 503 && refused.headers.first(name: "Retry-After") == "1")
        relay.dispenser.hold(false)
        for try await status in group { #expect(status == 200) }
      }
      #expect(relay.dispenser.draws == 32)
    }
  }

  /// A draw that its own limiter refuses is charged to the budget of keys all the same, as alone.
  @Test func `draws together are charged as draws alone, and as one request`() async throws {
    let buckets: [LimiterName: Bucket] = [
      .preKeys: Bucket(size: 0.25, perMinute: 0.001), .peerPreKeys: Bucket(size: 6, perMinute: 0.001),
      .peerRequests: Bucket(size: 100, perMinute: 0.001),
    ]
    try await withPeerClient(buckets: buckets) { relay, client in
      func draws(_ account: UInt64, _ device: UInt32, count: Int) -> [Relay_KeyBatch.Draw] {
        Array(
          repeating: .with { ($0.account, $0.device, $0.isSigned) = (account, device, true) }, count: count)
      }
      var batch = Relay_KeyBatch()
      batch.draws = draws(14_155_550_100, 1, count: 4)
      let first = try await put(batch, client)
      #expect(first.answers.map(\.status).sorted() == [200, 200, 413, 413])
      #expect(first.answers.allSatisfy { $0.status == 200 || $0.retryAfterSeconds > 0 })
      let beta = LimitKey(try name("beta"))
      #expect(await relay.coordination.space(in: .peerRequests, key: beta).rounded() == 99)
      // Four tries of one key each.
      #expect(await relay.coordination.space(in: .peerPreKeys, key: beta).rounded(.down) == 2)
      // Three devices: no room.
      batch.draws = draws(14_155_550_100, 0, count: 1)
      #expect(try await put(batch, client).answers.map(\.status) == [413])
    }
  }

  @Test func `keys of many arrive as they were drawn, in one request`() async throws {
    try await withPeers { alpha, beta in
      let (alphaName, account) = (try name("alpha"), try number("+14155550100"))
      let courier = beta.courier
      let drawn = try await withThrowingTaskGroup(of: (PreKeyVersion, [DrawnPreKey]).self) { group in
        for index in 0..<64 {
          let version: PreKeyVersion = index % 2 == 0 ? .one : .two
          group.addTask {
            (version, try await courier.preKeys(of: account, devices: .all, version: version, at: alphaName))
          }
        }
        return try await group.reduce(into: []) { $0.append($1) }
      }
      #expect(drawn.count == 64)
      for (version, keys) in drawn {
        if version == .two {
          #expect(keys == FixedDispenser.keys)
        } else {
          #expect(keys.map(\.preKey) == FixedDispenser.keys.prefix(2).map(\.preKey))
          #expect(keys.allSatisfy { $0.signedPreKey == nil })
        }
      }
      // Far fewer requests than draws.
      let spent = LimiterName.peerRequests.defaultBucket.size
      let left = await alpha.coordination.space(in: .peerRequests, key: LimitKey(try name("beta")))
      #expect(spent - left < 64)
    }
  }

  private static let capable = ScriptedPeer.Answer(
    status: 200, body: #"{"name":"beta","state":"active","capabilities":["key-batches"]}"#)
  private static let keys = ScriptedPeer.Answer(
    status: 200,
    body: #"{"keys":[{"deviceId":1,"keyId":7,"publicKey":"public","identityKey":"identity","registrationId":3}]}"#)

  @Test(arguments: [404, 405])
  func `a peer that turns out to know no draws together is asked one by one`(status refusal: Int) async throws {
    try await withScriptedPeers(["alpha"]) { beta, peers in
      peers[0].answer(by: { request in
        if request.path.hasSuffix("/peering") { return Self.capable }
        return request.method == .PUT ? .init(status: refusal) : Self.keys
      })
      let courier = beta.courier
      for _ in 0..<3 {
        let drawn = try await courier.preKeys(
          of: number("+14155550100"), devices: .all, version: .one, at: name("alpha"))
        #expect(drawn.map(\.preKey?.keyID) == [7])
      }
      #expect(peers[0].requests.count { $0.path == path } == 1)
      #expect(peers[0].requests.count { $0.method == .GET && $0.path.contains("/key/") } == 3)
    }
  }

  @Test func `an answer that cannot be read gives no keys, and the peer is asked one by one then`() async throws {
    try await withScriptedPeers(["alpha"]) { beta, peers in
      peers[0].answer(by: { request in
        if request.path.hasSuffix("/peering") { return Self.capable }
        return request.method == .PUT ? .init(status: 200, body: "no protobuf") : Self.keys
      })
      let courier = beta.courier
      func draw() async throws -> [DrawnPreKey] {
        try await courier.preKeys(of: number("+14155550100"), devices: .all, version: .one, at: name("alpha"))
      }
      let problem = await #expect(throws: Problem.self) { try await draw() }
      #expect(problem?.kind == .peerUnavailable)
      let drawn = try await draw()
      #expect(drawn.map(\.preKey?.keyID) == [7])
    }
  }

  @Test(arguments: [(403, Problem.Kind.peerUnavailable), (413, .rateLimited), (503, .peerUnavailable)])
  func `a refusal of the whole is each draw's`(status: Int, kind: Problem.Kind) async throws {
    try await withScriptedPeers(["alpha"]) { beta, peers in
      peers[0].answer(by: { request in
        request.path.hasSuffix("/peering") ? Self.capable : .init(status: status, headers: [("Retry-After", "7")])
      })
      let problem = await #expect(throws: Problem.self) {
        try await beta.courier.preKeys(of: number("+14155550100"), devices: .all, version: .two, at: name("alpha"))
      }
      #expect(problem?.kind == kind)
      if kind == .rateLimited { #expect(problem?.retryAfter == .seconds(7)) }
    }
  }

  private func put(_ batch: Relay_KeyBatch, _ client: RawClient) async throws -> Relay_KeyBatchAnswer {
    let answer = try await client.put(path, bytes: batch.serializedBytes(), as: KeyBatchCodec.mediaType)
    #expect(answer.status == 200)
    return try Relay_KeyBatchAnswer(serializedBytes: Array(answer.body.readableBytesView))
  }
}
