import RelayCore
import TestTags
import Testing

/// Identifiers.
@Suite(.tags(.unit)) struct IdentityTests {
  @Test(arguments: ["+14152222222", "+447100000001", "+298123456", "+123456789012345"])
  func `numbers keep their text`(text: String) throws {
    #expect(try #require(AccountNumber(e164: text)).e164 == text)
  }

  @Test(arguments: [
    "", "+", "14152222222", "+1415222", "+1234567890123456", "+0123456789", "+1415222222a", "+1415 222222",
    "+299123456",
    "+14152222222\u{0}", "++14152222222", "+١٢٣٤٥٦٧٨٩٠",
  ])
  func `a malformed number is refused`(text: String) {
    #expect(AccountNumber(e164: text) == nil)
  }

  @Test func `no time is added beyond the first and the last moment`() {
    #expect(Timestamp(millis: .max).adding(.milliseconds(1)).millis == .max)
    #expect(Timestamp(millis: .min).adding(.milliseconds(-1)).millis == .min)
    #expect(Timestamp(millis: 0).adding(.seconds(Int64.max)).millis == .max)
    #expect(Timestamp(millis: 0).adding(.seconds(Int64.min)).millis == .min)
    #expect(Timestamp(millis: 5).adding(.milliseconds(-7)).millis == -2)
    #expect(Timestamp(millis: .max).adding(.milliseconds(-1)).millis == .max - 1)
  }

  @Test func `sensitive values have no textual form`() throws {
    let number = try #require(AccountNumber(e164: "+14152222222"))
    let token = try #require(ContactCodec.token("BQVVHxMt5zAFXA"))
    let values: [any Sensitive] = [
      number, token, Secret("hunter2"), DeviceAddress(number, .master), LimitKey(number),
      PasswordHash(salt: [1, 2], hash: [3]), Fingerprint(high: 1, low: 2),
    ]
    for value in values {
      let printed = "\(value) \(String(reflecting: value)) \(Mirror(reflecting: value).children.map { "\($0)" })"
      #expect(printed.contains("<"))
      for secret in ["14152222222", "BQVVHxMt5zAFXA", "hunter2"] { #expect(!printed.contains(secret)) }
    }
    var dumped = ""
    dump(DeviceAddress(number, .master), to: &dumped)
    #expect(!dumped.contains("14152222222"))
  }

  @Test(arguments: ["alpha", "a", "relay-1.example_x", "9"]) func `relay names are accepted`(text: String) {
    #expect(RelayName(text)?.text == text)
  }

  @Test(arguments: ["", "Alpha", "-a", "a b", "a/b", "é", String(repeating: "a", count: 64)])
  func `a malformed relay name is refused`(text: String) {
    #expect(RelayName(text) == nil)
  }
}
