import RelayCore
import TestTags
import Testing

/// JSON is read strictly, with the leniency that clients need.
@Suite(.tags(.unit)) struct JSONReaderTests {
  @Test(arguments: ["7", "\"7\"", " 7 "]) func `integers may be strings`(text: String) throws {
    let value = try decode(text) { json throws(JSONError) in
      var reader = JSONReader(json)
      let value = try reader.integer()
      try reader.finish()
      return value
    }
    #expect(value == 7)
  }

  @Test func `64-bit integers keep every digit, larger ones are refused`() throws {
    #expect(try integer("9223372036854775807") == .max)
    #expect(throws: JSONError.wrongShape) { try integer("9223372036854775808") }
    #expect(throws: JSONError.wrongShape) { try integer("1.5") }
    #expect(throws: JSONError.malformed) { try integer("01") }
    #expect(throws: JSONError.malformed) { try integer("-") }
  }

  @Test func `escapes and surrogate pairs become text`() throws {
    #expect(try string(#""a\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00""#) == "a\"\\/\u{8}\u{c}\n\r\t\u{e9}\u{1F600}")
  }

  @Test(arguments: [#""\ud83d""#, #""\udc00\ud83d""#, #""\x""#, #""\u12""#, "\"\n\"", #""a\u0000""#, "\"a"])
  func `broken strings are refused`(text: String) {
    #expect(throws: JSONError.malformed) { try string(text) }
  }

  @Test func `characters that end or break a string are seen wherever they stand`() throws {
    for length in 0...40 {
      let plain = String(repeating: "\u{7f}", count: length)
      #expect(try string("\"\(plain)\"") == plain)
      for place in 0...length {
        let (head, tail) = (plain.prefix(place), plain.dropFirst(place))
        #expect(throws: JSONError.malformed) { try string("\"\(head)\u{1f}\(tail)\"") }
        #expect(try string("\"\(head)\\\"\(tail)\"") == "\(head)\"\(tail)")
        #expect(try string("\"\(head)é !#[]\(tail)\"") == "\(head)é !#[]\(tail)")
        #expect(throws: JSONError.malformed) { try string("\"\(head)\"\(tail)\"") }
      }
    }
  }

  @Test func `base64 of every length is decoded, broken anywhere or not`() throws {
    for length in 0...40 {
      let bytes = (0..<length).map { UInt8(truncatingIfNeeded: $0 &* 37 &+ 201) }
      let text = Base64.encode(bytes, padded: false)
      for written in [text, Base64.encode(bytes, padded: true), Base64.encodeURLSafe(bytes)] {
        #expect(Base64.decode(written) == bytes)
      }
      for place in 0...text.count {
        #expect(Base64.decode(text.prefix(place) + " \n" + text.dropFirst(place)) == bytes)
        #expect(Base64.decode(text.prefix(place) + "!" + text.dropFirst(place)) == nil)
      }
    }
  }

  @Test func `invalid UTF-8 is refused`() {
    let bytes: [UInt8] = [0x22, 0xC3, 0x28, 0x22]
    #expect(throws: JSONError.malformed) {
      var reader = JSONReader(bytes.span.bytes)
      _ = try reader.string()
    }
  }

  @Test(arguments: ["{", "{}x", "[1,]", "{\"a\":1,}", "{\"a\" 1}", "{a:1}", "nul", "[1 2]", "", "\u{0}"])
  func `a text that is not JSON is malformed`(text: String) {
    #expect(throws: JSONError.malformed) { try skip(text) }
  }

  @Test func `nesting is bounded`() {
    let deep = String(repeating: "[", count: 100_000) + String(repeating: "]", count: 100_000)
    #expect(throws: JSONError.malformed) { try skip(deep) }
    #expect(throws: Never.self) { try skip("[[[[{\"a\":[{}]}]]]]") }
  }

  @Test func `unknown properties of any shape are stepped over`() throws {
    let bundle = try decode(
      #"{"destination":"x","silent":true,"deep":{"a":[1,{"b":null}]},"messages":[{"type":"1","body":"Zm9v","new":[]}]}"#
    ) { json throws(JSONError) in try MessageBundle.decode(json) }
    #expect(bundle.messages.map(\.body) == [Array("foo".utf8)])
    #expect(bundle.messages.first?.device == .master)
  }

  /// Random bytes, and valid bodies with random bytes changed, at every decoder: refused or read, never a crash.
  @Test func `no bytes crash a decoder`() {
    var generator = SeededGenerator(seed: 20_261_121)
    let seeds = [
      #"{"messages":[{"type":1,"destinationDeviceId":1,"body":"Zm9v","timestamp":1}],"relay":null,"timestamp":5}"#,
      #"{"lastResortKey":{"keyId":1,"publicKey":"a","identityKey":"b"},"keys":[{"keyId":2,"publicKey":"c"}]}"#,
      #"{"contacts":["BQVVHxMt5zAFXA",{"token":"BQVVHxMt5zAFXA","inactive":true}]}"#,
      #"{"signalingKey":"AAEC","registrationId":"5","fetchesMessages":"true","name":"\u00e9"}"#,
      #"{"missingDevices":[1,2],"extraDevices":[],"staleDevices":[3]}"#,
    ].map { Array($0.utf8) }
    var outcomes = 0
    for round in 0..<30_000 {
      var bytes = seeds[round % seeds.count]
      if round % 3 == 0 {
        bytes = (0..<Int.random(in: 0...80, using: &generator)).map { _ in .random(in: 0...255, using: &generator) }
      }
      for _ in 0..<Int.random(in: 1...4, using: &generator) where !bytes.isEmpty {
        bytes[Int.random(in: 0..<bytes.count, using: &generator)] = .random(in: 0...255, using: &generator)
      }
      outcomes += Self.runAll(bytes)
    }
    #expect(outcomes > 0, "some changed bodies still read")
  }

  /// - Returns: how many decoders read the bytes.
  private static func runAll(_ bytes: [UInt8]) -> Int {
    let json = bytes.span.bytes
    var read = 0
    if (try? MessageBundle.decode(json)) != nil { read += 1 }
    if (try? PreKeyCodec.decodeUpload(json)) != nil { read += 1 }
    if (try? PreKeyCodec.decodeDrawn(json)) != nil { read += 1 }
    if (try? ContactQuery.decode(json, tokensMax: 100)) != nil { read += 1 }
    if (try? ContactQuery.decode(json, tokensMax: 1, hasCursor: true)) != nil { read += 1 }
    if (try? ContactCodec.decodeListing(json)) != nil { read += 1 }
    if (try? AccountAttributes.decode(json)) != nil { read += 1 }
    if (try? Problem.Devices.decode(json, isStale: false)) != nil { read += 1 }
    return read
  }

  private func integer(_ text: String) throws(JSONError) -> Int64? {
    try decode(text) { json throws(JSONError) in
      var reader = JSONReader(json)
      let value = try reader.integer()
      try reader.finish()
      return value
    }
  }

  private func string(_ text: String) throws(JSONError) -> String? {
    try decode(text) { json throws(JSONError) in
      var reader = JSONReader(json)
      let value = try reader.string()
      try reader.finish()
      return value
    }
  }

  private func skip(_ text: String) throws(JSONError) {
    try decode(text) { json throws(JSONError) in
      var reader = JSONReader(json)
      try reader.skip()
      try reader.finish()
    }
  }
}

/// SplitMix64: the same bytes on every run.
struct SeededGenerator: RandomNumberGenerator {
  private var state: UInt64
  init(seed: UInt64) { state = seed }
  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var z = state
    z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
    z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
    return z ^ (z >> 31)
  }
}
