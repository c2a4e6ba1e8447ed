import RelayCore
import TestSupport
import Testing

@testable import Federation

/// What operators copy, read out and type.
@Suite struct TextFormTests {
  @Test(arguments: [
    ("https://relay.example:8443", "https://relay.example:8443"),
    ("https://Relay.Example/", "https://relay.example:443"),
    ("https://127.0.0.1:1", "https://127.0.0.1:1"), ("https://[::1]:9", "https://[::1]:9"),
    ("HTTPS://a.b-c.d", "https://a.b-c.d:443"),
  ])
  func endpointsAreRead(text: String, normal: String) throws {
    #expect(try endpoint(text).text == normal)
  }

  @Test(arguments: [
    "", "http://relay.example", "https://", "https://relay.example/path", "https://user@relay.example",
    "https://relay.example?x", "https://relay.example:0", "https://relay.example:65536", "https://relay.example:+1",
    "https://[relay]:1", "https://::1", "https://-a.example", "https://a..b", "https://a b", "relay.example:1",
    "https://[::1", "https://relay.example:1:2",
  ])
  func otherURLsAreNoEndpoints(text: String) {
    #expect(PeerEndpoint(text) == nil)
  }

  @Test func invitationsSurviveTheTrip() throws {
    let code = try sample()
    #expect(!code.text.contains { $0.isWhitespace })
    #expect(code.text.hasPrefix("relay1."))
    #expect(try InvitationCode(code.text) == code)
    #expect(try InvitationCode("  \(code.text)\n") == code)
    #expect("\(code)" == "<invitation>")
  }

  @Test func brokenInvitationsAreRefused() throws {
    let text = try sample().text
    for broken in ["", "relay1.", "relay2.\(text.dropFirst(7))", String(text.dropLast(5)), String(text.dropFirst())] {
      #expect(throws: FederationError.self) { try InvitationCode(broken) }
    }
  }

  @Test func randomInvitationsNeverCrashTheReader() {
    var random = SplitMix(state: 7)
    for _ in 0..<2000 {
      let bytes = (0..<Int.random(in: 0..<80, using: &random)).map { _ in UInt8.random(in: 0...255, using: &random) }
      #expect(throws: FederationError.self) { try InvitationCode("relay1." + Base64.encodeURLSafe(bytes)) }
    }
  }

  @Test func thereAre256DistinctWords() {
    #expect(WordList.words.count == 256)
    #expect(Set(WordList.words).count == 256)
    #expect(WordList.words.allSatisfy { (3...8).contains($0.count) && $0.allSatisfy { $0.isLowercase } })
  }

  @Test func bothSidesReadTheSameSixWords() {
    let one = [UInt8](repeating: 1, count: 32)
    let other = [UInt8](repeating: 2, count: 32)
    #expect(SixWords(one, other) == SixWords(other, one))
    #expect(SixWords(one, other).words.count == 6)
    #expect(SixWords(one, other) != SixWords(one, one))
  }

  private func sample() throws -> InvitationCode {
    InvitationCode(
      name: try name("alpha"), endpoint: try endpoint("https://relay.example:8443"),
      fingerprint: Array(0..<32), secret: Array(100..<132), expires: Timestamp(millis: 1_795_000_000_000),
      scopes: [.messages, .keys])
  }
}

/// Random numbers that are the same in every run.
struct SplitMix: RandomNumberGenerator {
  var state: UInt64
  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var value = state
    value = (value ^ (value >> 30)) &* 0xBF58_476D_1CE4_E5B9
    value = (value ^ (value >> 27)) &* 0x94D0_49BB_1331_11EB
    return value ^ (value >> 31)
  }
}
