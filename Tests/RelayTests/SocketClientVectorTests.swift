import Foundation
import NIOCore
import NIOWebSocket
import RelayCore
import TestTags
import Testing

@testable import RelayClient

/// The published vectors, and what RFC 6455 says of a server's frames, as the client library reads them.
@Suite(.tags(.processes)) struct SocketClientVectorTests {
  // MARK: Envelopes

  @Test func `envelopes open under their signaling key, field by field`() throws {
    let vectors = try WholeRelayVectorTests.load("signaling_envelopes")
    #expect(vectors.count == 6)
    for vector in vectors {
      let key = try SignalingKey(try text(vector, "signaling_key_b64"))
      let envelope = try bytes(vector, "envelope_hex")
      #expect(try key.decrypt(envelope) == (try bytes(vector, "plaintext_hex")))
      let message = try key.open(envelope)
      let fields = try #require(vector["fields"] as? [String: Any])
      #expect(message.type == fields["type"] as? Int)
      #expect(message.source.number.e164 == fields["source"] as? String)
      #expect(message.source.deviceID == fields["sourceDevice"] as? Int ?? 1)
      #expect(message.relay == fields["relay"] as? String)
      #expect(message.timestamp == (fields["timestamp"] as? NSNumber)?.int64Value)
      #expect(message.body == (try hex(fields["message"] as? String ?? "")))
      #expect(message.content == (try hex(fields["content"] as? String ?? "")))
    }
  }

  @Test func `a text that was changed, cut short or encrypted under another key does not open`() throws {
    let rejected = try WholeRelayVectorTests.load("signaling_envelopes_rejected")
    #expect(rejected.count == 3)
    for vector in rejected { try expectNotAuthentic(bytes(vector, "envelope_hex"), text(vector, "signaling_key_b64")) }
    let vector = try #require(try WholeRelayVectorTests.load("signaling_envelopes").first)
    let (envelope, key) = (try bytes(vector, "envelope_hex"), try text(vector, "signaling_key_b64"))
    for index in envelope.indices {
      var changed = envelope
      changed[index] ^= 0x40
      try expectNotAuthentic(changed, key)
    }
    for count in 0..<envelope.count { try expectNotAuthentic(Array(envelope.prefix(count)), key) }
    try expectNotAuthentic(envelope, Base64.encode([UInt8](repeating: 1, count: 52), padded: true))
  }

  private func expectNotAuthentic(_ envelope: [UInt8], _ key: String) throws {
    let key = try SignalingKey(key)
    #expect(throws: DeliveryError.notAuthentic) { try key.open(envelope) }
  }

  @Test func `a signaling key has 52 bytes, in any spelling of base64, and is not shown`() throws {
    let bytes = [UInt8](0..<60)
    for count in [0, 51] {
      #expect(throws: RelayClientError.self) { try SignalingKey(Base64.encode(bytes.prefix(count), padded: true)) }
    }
    #expect(throws: RelayClientError.self) { try SignalingKey("!") }
    let key = try SignalingKey(Base64.encode(bytes, padded: false))
    #expect("\(key)" == "<signaling key>" && String(reflecting: key) == "<signaling key>")
    // Bytes behind the 52nd do not count.
    let vector = try #require(try WholeRelayVectorTests.load("signaling_envelopes").first)
    let longer = (Base64.decode(try text(vector, "signaling_key_b64")) ?? []) + [1, 2, 3]
    let same = try SignalingKey(Base64.encode(longer, padded: true))
    #expect(try same.open(try self.bytes(vector, "envelope_hex")).timestamp == 1_386_576_000_000)
  }

  // MARK: Messages

  @Test func `protobuf frames are read and written as the vectors say`() throws {
    let vectors = try WholeRelayVectorTests.load("websocket_protobuf_frames")
    #expect(vectors.count == 9)
    let frames = try vectors.map { try bytes($0, "hex") }
    let keepAlive = "/v1/keepalive"
    #expect(LiveDialect.request(id: nil, verb: "GET", path: keepAlive) == .binary(frames[0]))
    #expect(LiveDialect.request(id: 1, verb: "GET", path: keepAlive) == .binary(frames[1]))
    for frame in frames[2...3] {
      #expect(read(frame) == .answer(id: 1, LiveAnswer(status: 200, headers: [:], body: [])))
    }
    let second = try WholeRelayVectorTests.load("signaling_envelopes")[1]
    #expect(read(frames[4]) == .delivery(SealedDelivery(id: 1 << 62, envelope: try bytes(second, "envelope_hex"))))
    #expect(LiveDialect.protobuf.acknowledgement(of: 1 << 62) == .binary(frames[5]))
    #expect(LiveDialect.answer(id: 7, status: 500) == .binary(frames[6]))
    guard case .request(2, "PUT", "/v1/address", _) = read(frames[7]) else {
      throw TestMismatch(what: "the frame with the address")
    }
    #expect(read(frames[8]) == .request(id: 3, verb: "PUT", path: "/v1/message", body: [0x0A, 3] + Array("abc".utf8)))
  }

  @Test func `JSON frames are read and written as the vectors say`() throws {
    let vectors = try WholeRelayVectorTests.load("websocket_json_frames")
    #expect(vectors.count == 5)
    let texts = try vectors.map { try text($0, "text") }
    let first = try #require(try WholeRelayVectorTests.load("signaling_envelopes").first)
    let delivery = SealedDelivery(id: 0, envelope: try bytes(first, "envelope_hex"))
    #expect(LiveDialect.json.read(.text(texts[0])) == .delivery(delivery))
    #expect(LiveDialect.json.acknowledgement(of: 0) == .text(texts[1]))
    #expect(LiveDialect.json.read(.text(#"{"type":3}"#)) == .nothing)
    #expect(LiveDialect.json.read(.text("{")) == .malformed)
  }

  @Test func `random bytes are read without harm`() {
    var generator = SystemRandomNumberGenerator()
    for _ in 0..<20_000 {
      let bytes = (0..<Int.random(in: 0...40)).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
      _ = read(bytes)
      _ = LiveDialect.json.read(.text(String(decoding: bytes, as: UTF8.self)))
    }
  }

  private func read(_ bytes: [UInt8]) -> LiveFrame { LiveDialect.protobuf.read(.binary(bytes)) }

  // MARK: Helpers

  private struct TestMismatch: Error { let what: String }

  private func text(_ vector: [String: Any], _ key: String) throws -> String { try #require(vector[key] as? String) }
  private func bytes(_ vector: [String: Any], _ key: String) throws -> [UInt8] { try hex(try text(vector, key)) }

  private func hex(_ text: String) throws -> [UInt8] {
    let digits = Array(text)
    return try stride(from: 0, to: digits.count, by: 2).map {
      try #require(UInt8(String(digits[$0...($0 + 1)]), radix: 16))
    }
  }
}
