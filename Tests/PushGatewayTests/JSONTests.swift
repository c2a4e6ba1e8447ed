import OrderedCollections
import PushGateway
import RelayCore
import TestTags
import Testing

/// JSON that only passes through.
@Suite(.tags(.unit)) struct JSONTests {
  @Test func `order and digits survive`() throws {
    let text = #"{"b": 1.50, "a": [1e400, -0, 12345678901234567890], "c": {"z": null, "y": true}}"#
    #expect(String(decoding: try JSONValue(text).bytes(.spaced), as: UTF8.self) == text)
  }

  @Test func `of two equal keys, the later counts`() throws {
    #expect(try JSONValue(#"{"a":1,"b":2,"a":3}"#).json == #"{"a":3,"b":2}"#)
  }

  @Test func `keys that only look alike are two`() throws {
    let text = "{\"\u{E9}\":1,\"e\u{301}\":2}"
    #expect(try JSONValue(text).json == text)
  }

  @Test func `escapes are read, and written as few as may be`() throws {
    let value = try JSONValue(#""\u00e9\ud83d\udc30\/\"\\\n\t\b\f\r\u0000\u001f""#)
    #expect(value.text == "é🐰/\"\\\n\t\u{8}\u{C}\r\u{0}\u{1F}")
    #expect(value.json == #""é🐰/\"\\\n\t\b\f\r\u0000\u001f""#)
  }

  @Test func `half a character is replaced, and what follows is kept`() throws {
    #expect(try JSONValue(#""\ud83dx\udc30\ud83d\u0041""#).text == "\u{FFFD}x\u{FFFD}\u{FFFD}A")
  }

  @Test(
    arguments: [
      "", " ", "hello", "{", "[1,]", "{\"a\":}", "{\"a\" 1}", "{a:1}", "01", "+1", "1.", ".5", "1e", "NaN", "Infinity",
      "-Infinity", "nul", "\"", "\"\\x\"", "\"\\u12\"", "\"a\nb\"", "1 2", "[1]]", "{\"a\":1,}", "'a'",
    ])
  func `a text that is not JSON is refused`(text: String) {
    #expect(throws: JSONFault.self) { try JSONValue(parsing: Array(text.utf8)) }
  }

  @Test func `text that is not UTF-8 is refused`() {
    #expect(throws: JSONFault.self) { try JSONValue(parsing: [0x22, 0xFF, 0x22] as [UInt8]) }
    #expect(throws: JSONFault.self) { try JSONValue(parsing: [0xFF, 0xFE] as [UInt8]) }
  }

  @Test func `nesting is bounded`() throws {
    let depth = 100_000
    let text = String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
    #expect(throws: JSONFault.self) { try JSONValue(parsing: Array(text.utf8)) }
    _ = try JSONValue(String(repeating: "[", count: 100) + String(repeating: "]", count: 100))
  }

  @Test func `random bytes are read or refused, never more`() {
    var generator = SystemRandomNumberGenerator()
    let pieces = Array(#"{}[]",:\u0123456789eE+-.truefalsn "#.utf8)
    for _ in 0..<5000 {
      let bytes = (0..<Int.random(in: 0...40)).compactMap { _ in pieces.randomElement(using: &generator) }
      do {
        let value = try JSONValue(parsing: bytes)
        let again = try JSONValue(parsing: value.bytes(.compact))
        #expect(again == value)
      } catch {
        // Refused.
      }
    }
  }
}
