import Crypto
import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Federation

/// The texts that operators copy, read out and type.
@Suite(.tags(.unit)) struct TextFormTests {
  @Test(arguments: [
    ("https://relay.example:8443", "https://relay.example:8443"),
    ("https://Relay.Example/", "https://relay.example:443"),
    ("https://127.0.0.1:1", "https://127.0.0.1:1"), ("https://[::1]:9", "https://[::1]:9"),
    ("HTTPS://a.b-c.d", "https://a.b-c.d:443"),
  ])
  func `endpoints are read`(text: String, normal: String) throws {
    #expect(try endpoint(text).text == normal)
  }

  @Test(arguments: [
    "", "http://relay.example", "https://", "https://relay.example/path", "https://user@relay.example",
    "https://relay.example?x", "https://relay.example:0", "https://relay.example:65536", "https://relay.example:+1",
    "https://[relay]:1", "https://::1", "https://-a.example", "https://a..b", "https://a b", "relay.example:1",
    "https://[::1", "https://relay.example:1:2", "https://[::1\0]:1", "https://[::1\0relay]:1",
  ])
  func `other URLs are no endpoints`(text: String) {
    #expect(PeerEndpoint(text) == nil)
  }

  @Test func `a sign is no hexadecimal digit`() {
    #expect([UInt8](hex: "0fA0") == [0x0F, 0xA0])
    for text in ["+f", "-0", "00+1", "0", "0g"] { #expect([UInt8](hex: text) == nil, "\(text)") }
  }

  @Test func `invitations survive the trip`() throws {
    let code = try sample()
    #expect(!code.text.contains { $0.isWhitespace })
    #expect(code.text.hasPrefix("relay1."))
    #expect(try InvitationCode(code.text) == code)
    #expect(try InvitationCode("  \(code.text)\n") == code)
    #expect("\(code)" == "<invitation>")
  }

  @Test func `broken invitations are refused`() throws {
    let text = try sample().text
    for broken in ["", "relay1.", "relay2.\(text.dropFirst(7))", String(text.dropLast(5)), String(text.dropFirst())] {
      #expect(throws: FederationError.self) { try InvitationCode(broken) }
    }
  }

  @Test func `random invitations never crash the reader`() {
    var random = SplitMix(state: 7)
    for _ in 0..<2000 {
      let bytes = (0..<Int.random(in: 0..<80, using: &random)).map { _ in UInt8.random(in: 0...255, using: &random) }
      #expect(throws: FederationError.self) { try InvitationCode("relay1." + Base64.encodeURLSafe(bytes)) }
    }
  }

  @Test func `there are 2048 words that are easily told apart`() {
    #expect(WordList.words.count == 2048)
    #expect(WordList.words == WordList.words.sorted())
    #expect(Set(WordList.words.map { $0.prefix(4) }).count == 2048)
    #expect(WordList.words.allSatisfy { (3...8).contains($0.utf8.count) && $0.allSatisfy { ("a"..."z").contains($0) } })
  }

  /// Reckoned with another program: openssl, and the first 110 bits of its SHA-256.
  @Test func `the words of an authority are those of its key`() throws {
    let key = try P256.Signing.PrivateKey(rawRepresentation: Array(1...32) as [UInt8])
    let expected = "vault protect bar hour imitate confirm orphan fitness choice oil"
    #expect(AuthorityWords(Array(SHA256.hash(data: key.publicKey.derRepresentation))).description == expected)
    // The rest of the certificate does not matter.
    for name in ["alpha", "beta"] {
      let authority = try TestAuthority(name, key: key).certificate
      #expect(AuthorityWords(authority.keyFingerprint).description == expected)
    }
  }

  @Test func `each word is eleven bits of the fingerprint`() {
    let zero = [UInt8](repeating: 0, count: 32)
    let first = Array(repeating: "abandon", count: 10)
    #expect(AuthorityWords(zero).words == first)
    #expect(AuthorityWords(Array(repeating: 0xFF, count: 32)).words == Array(repeating: "zoo", count: 10))
    for bit in 0..<256 {
      var fingerprint = zero
      fingerprint[bit / 8] = 0x80 >> (bit % 8)
      var expected = first
      // Bits behind the 110th count for nothing.
      if bit < 110 { expected[bit / 11] = WordList.words[1 << (10 - bit % 11)] }
      #expect(AuthorityWords(fingerprint).words == expected, "bit \(bit)")
    }
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
