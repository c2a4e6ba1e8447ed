import Foundation
import TestSupport
import TestTags
import Testing

/// The published vectors that need a whole relay to be seen. Two of them are about one number: one after the other.
@Suite(.tags(.processes), .ownRelay, .serialized) struct WholeRelayVectorTests {
  let site: RelayOperator
  let relay: RelayProcess

  init() throws {
    let suite = try suiteRelay()
    (site, relay) = (suite.site, suite.relay)
  }

  @Test func `a request becomes the envelope that the vectors say`() async throws {
    let vectors = try Self.load("submit_to_envelope").filter { $0["peer"] == nil }
    #expect(vectors.count == 2)
    for vector in vectors {
      let parts = try #require(vector["sender"] as? String).split(separator: ".").map(String.init)
      var sender = try await relay.register(parts[0])
      if parts[1] != "1" {
        sender = try await site.linkDevice(try #require(Int(parts[1])), registrationID: 0, to: sender)
        try await relay.upload([], as: TestDevice(number: parts[0], password: sender.password, registrationID: 0))
      }
      let recipient = try await relay.register(try #require(vector["destination"] as? String), registrationID: 111)
      let request = try #require(vector["request"] as? [String: Any])
      let json = String(decoding: try JSONSerialization.data(withJSONObject: request), as: UTF8.self)
      #expect(try await relay.send("PUT", "/v1/messages/\(recipient.number)", json: json, as: sender).status == 200)

      var expected = try EnvelopeFields(hex: try #require(vector["envelope_hex"] as? String))
      // The historic relay of the first vector ignored the times of single messages; reference 2.7 takes them.
      let messages = try #require(request["messages"] as? [[String: Any]])
      if request["timestamp"] == nil, let own = messages.first?["timestamp"] as? NSNumber {
        expected.timestamp = own.int64Value
      }
      let shown = try await relay.mailbox(of: recipient).map(Shown.init)
      #expect(shown.count == 1)
      let message = try #require(shown.first)
      #expect(message.type == expected.type)
      #expect(message.source == expected.source)
      #expect(message.sourceDevice == expected.sourceDevice)
      #expect(message.relay == expected.relay ?? "")
      #expect(message.timestamp == expected.timestamp)
      #expect(message.message == expected.message.map { Data($0).base64EncodedString() })
      #expect(message.content == expected.content.map { Data($0).base64EncodedString() })
    }
  }

  @Test func `a registered number is found by its token in every spelling`() async throws {
    let caller = try await relay.register()
    let vectors = try Self.load("contact_tokens")
    #expect(vectors.count == 8)
    for vector in vectors {
      _ = try await relay.register(try #require(vector["number"] as? String))
      let token = try #require(vector["token_b64_unpadded"] as? String)
      let spellings = try ["token_b64_unpadded", "token_b64_padded", "token_b64url_unpadded"].map {
        try #require(vector[$0] as? String)
      }
      for spelling in spellings {
        let asked = try await relay.send(
          "PUT", "/v1/directory/tokens", json: #"{"contacts":["\#(spelling)"]}"#, as: caller)
        #expect(asked.text == #"{"contacts":[{"token":"\#(token)"}]}"#)
        for path in [spelling, spelling.replacingOccurrences(of: "/", with: "%2F")] {
          let answer = try await relay.send("GET", "/v1/directory/\(path)", as: caller)
          #expect(answer.text == #"{"token":"\#(token)"}"#, "\(path)")
        }
      }
    }
  }

  /// The copy that the tests of the codecs use.
  static func load(_ section: String) throws -> [[String: Any]] {
    let file = URL(filePath: #filePath).deletingLastPathComponent()
      .appending(path: "../RelayCoreTests/Vectors/textsecure-vectors.json")
    let all = try JSONSerialization.jsonObject(with: Data(contentsOf: file)) as? [String: Any]
    return try #require(all?[section] as? [[String: Any]])
  }
}

/// The push signal of reference 2.9, read by hand so that our own codecs are not their own judges.
struct EnvelopeFields {
  var type: Int?
  var source: String?
  var relay: String?
  var timestamp: Int64?
  var message: [UInt8]?
  var sourceDevice: Int?
  var content: [UInt8]?

  struct Malformed: Error {}

  init(hex: String) throws {
    let digits = Array(hex)
    var bytes = try stride(from: 0, to: digits.count, by: 2).map {
      guard let byte = UInt8(String(digits[$0...($0 + 1)]), radix: 16) else { throw Malformed() }
      return byte
    }[...]
    while !bytes.isEmpty {
      let tag = try Self.integer(&bytes)
      switch (tag >> 3, tag & 7) {
      case (1, 0): type = Int(try Self.integer(&bytes))
      case (5, 0): timestamp = Int64(try Self.integer(&bytes))
      case (7, 0): sourceDevice = Int(try Self.integer(&bytes))
      case (2, 2): source = String(decoding: try Self.text(&bytes), as: UTF8.self)
      case (3, 2): relay = String(decoding: try Self.text(&bytes), as: UTF8.self)
      case (6, 2): message = try Self.text(&bytes)
      case (8, 2): content = try Self.text(&bytes)
      default: throw Malformed()
      }
    }
  }

  private static func integer(_ bytes: inout ArraySlice<UInt8>) throws -> UInt64 {
    var value: UInt64 = 0
    var shift: UInt64 = 0
    while let byte = bytes.popFirst() {
      value |= UInt64(byte & 0x7F) << shift
      if byte < 0x80 { return value }
      shift += 7
    }
    throw Malformed()
  }

  private static func text(_ bytes: inout ArraySlice<UInt8>) throws -> [UInt8] {
    let count = Int(try integer(&bytes))
    guard count <= bytes.count else { throw Malformed() }
    defer { bytes.removeFirst(count) }
    return Array(bytes.prefix(count))
  }
}
