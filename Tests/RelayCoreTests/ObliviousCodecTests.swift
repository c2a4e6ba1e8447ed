import Foundation
import RelayCore
import TestTags
import Testing

@Suite(.tags(.unit)) struct ObliviousCodecTests {
  private static func elements(_ json: String) throws(ObliviousCodec.Refusal) -> [[UInt8]] {
    let bytes = Array(json.utf8)
    return try ObliviousCodec.elements(bytes.span.bytes)
  }

  private static func element(_ number: Int) -> [UInt8] {
    [2] + [UInt8](repeating: 0, count: 29) + [UInt8(number >> 8), UInt8(number & 255)]
  }

  @Test func `elements come in the order of the request, and what is written reads back`() throws {
    let elements = (0..<1000).map(Self.element)
    #expect(try Self.elements(String(decoding: ObliviousCodec.request(elements), as: UTF8.self)) == elements)
    #expect(try Self.elements(#"{"x":[1],"elements":[]}"#) == [])
  }

  @Test func `one element too many is refused, and what stands behind it is not read`() {
    let list = (0...1000).map { #""\#(Base64.encode(Self.element($0), padded: true))""# }.joined(separator: ",")
    #expect(throws: ObliviousCodec.Refusal.tooMany) { try Self.elements(#"{"elements":[\#(list)"#) }
  }

  @Test(arguments: [
    ("{}", ObliviousCodec.Refusal.json(.wrongShape)), (#"{"elements":null}"#, .json(.wrongShape)),
    (#"{"elements":[7]}"#, .json(.wrongShape)), (#"{"elements":[null]}"#, .json(.wrongShape)),
    (#"{"elements":["#, .json(.malformed)), (#"{"elements":["AAAA"]}"#, .undecodable),
    (#"{"elements":["!"]}"#, .undecodable), (#"{"elements":[""]}"#, .undecodable),
    // The identity.
    (#"{"elements":["AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="]}"#, .undecodable),
  ])
  func `a text that is no list of elements is refused`(json: String, refusal: ObliviousCodec.Refusal) {
    #expect(throws: refusal) { try Self.elements(json) }
  }

  @Test func `answers are written as documented`() throws {
    let beta = try #require(RelayName("beta"))
    let outputs = [
      RegisteredOutput(ObliviousOutput(bits: 1), relay: beta, voice: true),
      RegisteredOutput(ObliviousOutput(bits: 0xFF00_0000_0000_0000), relay: nil, supportsSMS: true),
    ]
    let page = ObliviousCodec.page(
      key: [1, 2, 3], suggestedDigits: 2, outputs: outputs, next: ObliviousOutput(bits: 0xFF00_0000_0000_0007))
    #expect(
      String(decoding: page, as: UTF8.self)
        == #"{"key":"AQID","prefix-suggested":2,"outputs":"AAAAAAAAAAH/AAAAAAAAAA==","homes":"gUA=","#
        + #""relays":["beta"],"next":"ff00000000000007"}"#)
    let last = ObliviousCodec.page(key: [1], suggestedDigits: 0, outputs: [], next: nil)
    #expect(
      String(decoding: last, as: UTF8.self)
        == #"{"key":"AQ==","prefix-suggested":0,"outputs":"","homes":"","relays":[]}"#)
    let answer = ObliviousCodec.answer(key: [1], evaluations: [[2], [3]], proof: [4])
    #expect(String(decoding: answer, as: UTF8.self) == #"{"key":"AQ==","evaluations":["Ag==","Aw=="],"proof":"BA=="}"#)
    let keyAlone = ObliviousCodec.answer(key: [1], evaluations: [], proof: nil)
    #expect(String(decoding: keyAlone, as: UTF8.self) == #"{"key":"AQ==","evaluations":[]}"#)
  }
}

/// The homes of the contacts of a page.
@Suite(.tags(.unit)) struct ObliviousHomesTests {
  private static func outputs(relays: Int) -> [RegisteredOutput] {
    (0...relays).map { index in
      let name = index == 0 ? nil : RelayName("relay-\(index * 7919 % 5003)")
      return RegisteredOutput(
        ObliviousOutput(bits: UInt64(index)), relay: name, supportsSMS: index % 2 == 0, voice: index % 3 == 0)
    }
  }

  @Test(arguments: [(0, 1), (1, 1), (63, 1), (64, 2), (4095, 2)])
  func `a written value reads back, in one byte or two`(relays: Int, width: Int) {
    let outputs = Self.outputs(relays: relays)
    let homes = ObliviousHomes(of: outputs)
    #expect(homes.relays.count == relays && homes.relays == homes.relays.sorted())
    #expect(homes.bytes.count == width * outputs.count)
    #expect(ObliviousHomes.read(outputs.map(\.output), homes.bytes, homes.relays) == outputs)
    #expect(ObliviousHomes(of: outputs) == homes)
  }

  @Test func `a number that names no relay, or too few of them, is refused`() {
    let outputs = Self.outputs(relays: 2)
    let homes = ObliviousHomes(of: outputs)
    let all = outputs.map(\.output)
    #expect(ObliviousHomes.read(all, Array(homes.bytes.dropLast()), homes.relays) == nil)
    #expect(ObliviousHomes.read(all, homes.bytes + [0], homes.relays) == nil)
    #expect(ObliviousHomes.read(all, homes.bytes, Array(homes.relays.dropLast())) == nil)
    #expect(ObliviousHomes.read(all, [3, 0, 0], homes.relays) == nil)
    #expect(ObliviousHomes.read([], [], []) == [])
  }
}

@Suite(.tags(.unit)) struct ObliviousPrefixTests {
  @Test func `a prefix holds the outputs that begin with its digits`() throws {
    let all = try #require(ObliviousPrefix(""))
    #expect(all == .all && all.range == ObliviousOutput(bits: 0)...ObliviousOutput(bits: .max))
    let one = try #require(ObliviousPrefix("a"))
    #expect(one == ObliviousPrefix("A") && one.text == "a")
    #expect(one.range.lowerBound.bits == 0xA000_0000_0000_0000 && one.range.upperBound.bits == 0xAFFF_FFFF_FFFF_FFFF)
    let longest = try #require(ObliviousPrefix("0123cdef"))
    #expect(longest.text == "0123cdef" && longest.range.lowerBound.bits == 0x0123_CDEF_0000_0000)
    for text in ["g", "123456789", " ", "-1", "0x1", "é"] { #expect(ObliviousPrefix(text) == nil) }
  }

  @Test func `an output lies in its own prefix of any length`() {
    for bits in [0, 1, 0x0123_4567_89AB_CDEF, UInt64.max] {
      let output = ObliviousOutput(bits: bits)
      for digits in 0...8 {
        let prefix = ObliviousPrefix(of: output, digitCount: digits)
        #expect(prefix.range.contains(output) && prefix.digitCount == digits)
        #expect(ObliviousPrefix(prefix.text) == prefix)
      }
      #expect(ObliviousOutput(cursorText: output.cursorText) == output)
      #expect(ObliviousOutput(bytes: output.bytes) == output)
    }
    for text in ["", "0", "00000000000000001", "000000000000000g"] { #expect(ObliviousOutput(cursorText: text) == nil) }
  }

  @Test func `the suggested prefixes and the pages are those of docs`() throws {
    let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent()
    let text = try Data(contentsOf: root.appending(path: "docs/vectors/oblivious.json"))
    let vectors = try #require(try JSONSerialization.jsonObject(with: text) as? [String: Any])
    let suggestions = try #require(vectors["suggested_digits"] as? [[String: Int]])
    #expect(suggestions.count == 10)
    for vector in suggestions {
      let registered = try #require(vector["registered"])
      #expect(ObliviousPrefix.suggestedDigits(for: registered) == vector["digits"], "\(registered)")
    }
    let outputs = try #require(vectors["outputs"] as? [[String: Any]]).map { vector in
      let text = try #require(vector["truncated_hex"] as? String)
      return RegisteredOutput(
        try #require(ObliviousOutput(cursorText: text)), relay: (vector["relay"] as? String).flatMap { RelayName($0) },
        supportsSMS: try #require(vector["supports_sms"] as? Bool), voice: try #require(vector["voice"] as? Bool))
    }.sorted { $0.output < $1.output }
    #expect(outputs.count == 3)
    for vector in try #require(vectors["pages"] as? [[String: Any]]) {
      let prefix = try #require(ObliviousPrefix(vector["prefix"] as? String ?? "-"))
      let shown = outputs.filter { prefix.range.contains($0.output) }
      let homes = ObliviousHomes(of: shown)
      #expect(Base64.encode(shown.flatMap(\.output.bytes), padded: true) == vector["outputs"] as? String)
      #expect(Base64.encode(homes.bytes, padded: true) == vector["homes"] as? String)
      #expect(homes.relays.map(\.text) == vector["relays"] as? [String])
    }
  }
}
