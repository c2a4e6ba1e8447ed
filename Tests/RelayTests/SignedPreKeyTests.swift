import Foundation
import Relay
import RelayClient
import RelayCore
import TestSupport
import TestTags
import Testing

/// Checks of a prekey's signature.
@Suite(.tags(.unit)) struct SignatureTests {
  /// Identity key, signed key, signature. The first was published with libsignal; the others were made with PyPI's
  /// `xeddsa` 1.2.0 and checked against its own verification.
  static let vectors = [
    (
      "05ab7e717d4a163b7d9a1d8071dfe9dcf8cdcd1cea3339b6356be84d887e322c64",
      "05edce9d9c415ca78cb7252e72c2c4a554d3eb29485a0e1d503118d1a82d99fb4a",
      "5de88ca9a89b4a115da79109c67c9c7464a3e4180274f1cb8c63c2984e286dfb"
        + "ede82deb9dcd9fae0bfbb821569b3d9001bd8130cd11d486cef047bd60b86e88"
    ),
    (
      "05c6cda2deba8122cf91a584e23bde7e6b888937ca8e33b05b0920791dafdcd56c",
      "05ba72499bfa121e836b2ac15726ee7d6b0af6ab13c38e92cae0d15057b159987f",
      "c699fd47db74cba8f6e7dc40e6316d551e588a5cfcd68f58a103115dabd42e44"
        + "2ace2f0157ef2081f66ac00b53ae4526873838aa8f7d4a7585967be422344d8a"
    ),
    (
      "05bc1ac3f760f9cb51d9e1745a77af2b8941c9694127576c6e64b06110e6c19d6f",
      "0583f39ea7adbd0d74e6dec7f3dfaecc8f646566641a7ba2660f3011fc3570291c",
      "536417f09fc8e721c2fd97075be9617187f155ea8dc9d8b0be703e873f35f2f0"
        + "60a3ede4b00d10e01b47031f172f78df6543afa8363262acb34ce4d6c589f208"
    ),
    (
      "057237bcab164fc8012b1457b1d3226db67c218ba3859d7163afa95d5d3ac28d5e",
      "054fa04e87c2344a7280ac2d4558cd04fe40090304bb818dfa3083793eef721ba8",
      "221e6adbfef639c24395765570ffcb313deb376805dd2603ce276cd80e1d872e"
        + "75fcbfd787dea533f7b52112ae4dae77f593bd69f40ac983a62a231a868c1404"
    ),
  ]

  private func isSigned(_ key: [UInt8], _ signature: [UInt8], by identity: [UInt8]) -> Bool {
    let text = { (bytes: [UInt8]) in Base64.encode(bytes, padded: false) }
    return SignedPreKey(keyID: 1, publicKey: text(key), signature: text(signature)).isSigned(by: text(identity))
  }

  @Test(arguments: vectors)
  func `a right signature is recognised`(identity: String, key: String, signature: String) throws {
    #expect(isSigned(try bytes(key), try bytes(signature), by: try bytes(identity)))
  }

  @Test(arguments: 0..<3) func `a signature with any bit altered in it, its key or its signer is none`(part: Int) throws
  {
    let (identity, key, signature) = Self.vectors[0]
    let parts = [try bytes(identity), try bytes(key), try bytes(signature)]
    // The identity key's last bit counts for nothing (RFC 7748, 5).
    for bit in 0..<(8 * parts[part].count - (part == 0 ? 1 : 0)) {
      var altered = parts
      altered[part][bit / 8] ^= 1 << UInt8(bit % 8)
      #expect(!isSigned(altered[1], altered[2], by: altered[0]), "bit \(bit)")
    }
  }

  @Test func `a text without the length or type of a key or a signature is none`() throws {
    let (identity, key, signature) = Self.vectors[0]
    let parts = [try bytes(identity), try bytes(key), try bytes(signature)]
    for part in parts.indices {
      for altered in [[], Array(parts[part].dropLast()), parts[part] + [0]] {
        var all = parts
        all[part] = altered
        #expect(!isSigned(all[1], all[2], by: all[0]))
      }
    }
    let signed = SignedPreKey(keyID: 1, publicKey: "é", signature: "!")
    #expect(!signed.isSigned(by: "identity"))
  }

  @Test func `the client library's signatures are right ones, with either sign`() throws {
    for seed in 0..<32 {
      let keys = try IdentityKeys(seed: [UInt8](repeating: UInt8(seed), count: 32))
      let key = SignedKeys.publicKey()
      let signed = SignedPreKey(keyID: 1, publicKey: key, signature: try keys.signature(of: key))
      #expect(signed.isSigned(by: keys.publicKey))
      #expect(signed.signature.utf8.count == 86 && keys.publicKey.utf8.count == 44)
    }
    #expect(throws: RelayClientError.self) { try IdentityKeys(seed: [1, 2, 3]) }
  }

  /// With PyPI's `xeddsa`: the Montgomery form of the Ed25519 key of the seed.
  @Test func `an identity key is the other form of its seed's key`() throws {
    let seed = try bytes("52f22665a60c12d289185d950ee8813609166f6b113d178d6c0fd3901ff239a1")
    let identity = Base64.decode(try IdentityKeys(seed: seed).publicKey)
    #expect(identity == (try bytes(Self.vectors[1].0)))
  }

  private func bytes(_ hex: String) throws -> [UInt8] {
    let digits = Array(hex)
    return try stride(from: 0, to: digits.count, by: 2).map {
      try #require(UInt8(String(digits[$0...($0 + 1)]), radix: 16))
    }
  }
}

/// Prekeys of version 2 (reference 1.7).
@Suite(.tags(.processes), .ownRelay) struct SignedPreKeyTests {
  let site: RelayOperator
  let relay: RelayProcess
  let caller: TestDevice
  let owner: TestDevice
  let keys: SignedKeys

  init() async throws {
    let suite = try suiteRelay()
    (site, relay) = (suite.site, suite.relay)
    caller = try await relay.register()
    owner = try await relay.register(registrationID: 4242)
    keys = try SignedKeys()
  }

  private func draw(_ selector: String = "1", version: Int = 2) async throws -> Answer {
    try await relay.send("GET", "/v\(version)/keys/\(owner.number)/\(selector)", as: caller)
  }

  private func put(_ path: String, _ json: String, as device: TestDevice? = nil) async throws -> Answer {
    try await relay.send("PUT", path, json: json, as: device ?? owner)
  }

  private func count() async throws -> String { try await relay.send("GET", "/v2/keys/", as: owner).text }

  @Test func `a draw brings the identity key once, and signed and one-time key of each device`() async throws {
    let signed = try keys.signed(7)
    #expect(try await put("/v2/keys/", try keys.upload([0, 3], signed: signed)).status == 200)
    let answer = try await draw()
    #expect(answer.headers["content-type"] == "application/json")
    #expect(
      answer.text
        == #"{"identityKey":"\#(keys.identity.publicKey)","devices":[{"deviceId":1,"registrationId":4242,"#
        + #""signedPreKey":\#(signed),"preKey":{"keyId":0,"publicKey":"key-0"}}]}"#)
    #expect(try await draw("*").text.contains(#""keyId":3"#))
    for _ in 0..<2 {
      #expect(try await draw("%2A").text.contains(#""preKey":{"keyId":16777215,"publicKey":"key-last"}"#))
    }
  }

  @Test func `both versions share one supply`() async throws {
    try await relay.upload(keys, [1, 2, 3], as: owner)
    #expect(try await count() == #"{"count":3}"#)
    #expect(try await draw(version: 1).list("keys").first?["keyId"] as? Int == 1)
    #expect(try await draw().text.contains(#""keyId":2"#))
    #expect(try await relay.send("GET", "/v1/keys", as: owner).text == #"{"count":1}"#)
    #expect(try await draw(version: 1).list("keys").first?["identityKey"] as? String == keys.identity.publicKey)
  }

  @Test func `a missing key is null, and version 1 leaves out devices without a prekey`() async throws {
    try await relay.upload(keys, [], lastResort: nil, as: owner)
    #expect(try await draw().text.contains(#""preKey":null"#))
    #expect(try await draw(version: 1).status == 404)

    let old = try await relay.register()
    try await relay.upload([4], as: old)
    let answer = try await relay.send("GET", "/v2/keys/\(old.number)/*", as: caller)
    #expect(answer.list("devices").first?["signedPreKey"] is NSNull)
    #expect(answer.text.contains(#""preKey":{"keyId":4,"publicKey":"key-4"}"#))
  }

  @Test func `a last resort that a later upload leaves out stays`() async throws {
    try await relay.upload(keys, [1], as: owner)
    try await relay.upload(keys, [2], lastResort: nil, as: owner)
    #expect(try await draw().text.contains(#""keyId":2"#))
    #expect(try await draw().text.contains(#""keyId":16777215"#))
  }

  @Test func `a signed prekey is replaced and read by its own device`() async throws {
    let linked = try await site.linkDevice(2, registrationID: 77, to: owner)
    try await relay.upload(keys, [1], as: owner)
    let first = try await relay.send("GET", "/v2/keys/signed", as: owner)
    #expect(first.status == 200 && first.headers["content-type"] == "application/json")
    let next = try keys.signed(6)
    #expect(try await put("/v2/keys/signed", next).status == 200)
    #expect(try await relay.send("GET", "/v2/keys/signed/", as: owner).text == next)
    #expect(try await draw().text.contains(#""signedPreKey":\#(next)"#))
    #expect(try await relay.send("GET", "/v2/keys/signed", as: linked).status == 404)
    #expect(try await count() == #"{"count":0}"#)
  }

  @Test func `without an identity key there is nothing that could have signed`() async throws {
    #expect(try await relay.send("GET", "/v2/keys/signed", as: owner).status == 404)
    let answer = try await put("/v2/keys/signed", try keys.signed())
    #expect(answer.status == 415 && answer.text.hasPrefix("signature-refused: "))
  }

  @Test func `a prekey that the identity key did not sign is refused, and nothing changes`() async throws {
    try await relay.upload(keys, [1, 2], as: owner)
    let foreign = try SignedKeys().signed()
    let opaque = #"{"keyId":1,"publicKey":"opaque","signature":"opaque"}"#
    for signed in [foreign, opaque] {
      for (path, json) in [("/v2/keys", try keys.upload([9], signed: signed)), ("/v2/keys/signed", signed)] {
        let answer = try await put(path, json)
        #expect(answer.status == 415 && answer.text.hasPrefix("signature-refused: "), "\(path)")
      }
    }
    #expect(try await count() == #"{"count":2}"#)
    #expect(try await draw().text.contains(keys.identity.publicKey))
  }

  @Test func `device 1 may change the identity key, a linked device must bring the account's`() async throws {
    let linked = try await site.linkDevice(2, registrationID: 77, to: owner)
    try await relay.upload(keys, [1], as: owner)
    try await relay.upload(keys, [5], as: linked)
    let other = try SignedKeys()
    for (path, json) in [
      ("/v2/keys", try other.upload([6])),
      ("/v1/keys", #"{"lastResortKey":{"keyId":1,"publicKey":"a","identityKey":"other"},"keys":[]}"#),
    ] {
      let answer = try await put(path, json, as: linked)
      #expect(answer.status == 403 && answer.text.hasPrefix("identity-refused: "), "\(path)")
    }
    let drawn = try await draw("*")
    #expect(drawn.object["identityKey"] as? String == keys.identity.publicKey)
    #expect(drawn.list("devices").compactMap { ($0["preKey"] as? [String: Any])?["keyId"] as? Int } == [1, 5])

    #expect(try await put("/v2/keys", try other.upload([7])).status == 200)
    #expect(try await draw("*").object["identityKey"] as? String == other.identity.publicKey)
    #expect(try await put("/v2/keys/signed", try keys.signed()).status == 415)
    #expect(try await put("/v2/keys/signed", try other.signed()).status == 200)
  }

  @Test(arguments: [
    "{}", "[]", #"{"identityKey":"I","preKeys":[]}"#, #"{"identityKey":"I","preKeys":[],"signedPreKey":{}}"#,
    #"{"identityKey":"I","preKeys":{},"signedPreKey":{"keyId":1,"publicKey":"a","signature":"b"}}"#,
  ])
  func `a malformed upload is refused`(json: String) async throws {
    let answer = try await put("/v2/keys", json)
    #expect(answer.status == 415 && answer.text.hasPrefix("malformed-body: "))
    #expect(try await put("/v2/keys/signed", json).status == 415)
  }

  @Test func `an upload has at most 1000 keys`() async throws {
    #expect(try await put("/v2/keys", try keys.upload(Array(0..<1000))).status == 200)
    #expect(try await put("/v2/keys", try keys.upload(Array(0...1000))).status == 413)
    #expect(try await count() == #"{"count":1000}"#)
  }

  @Test func `selectors, numbers and relays are refused as in version 1`() async throws {
    try await relay.upload(keys, [1], as: owner)
    for selector in ["x", "1x", "**"] { #expect(try await draw(selector).status == 422) }
    for selector in ["0", "-1", "2", "4294967296", "1?relay=nowhere", "1?relay=UPPER"] {
      #expect(try await draw(selector).status == 404, "\(selector)")
    }
    #expect(try await draw("1?relay=").status == 200)
    for number in [TestDevice.freshNumber(), "x"] {
      #expect(try await relay.send("GET", "/v2/keys/\(number)/*", as: caller).status == 404)
    }
    #expect(try await relay.send("GET", "/v2/keys/\(caller.number)/*", as: caller).status == 404)
  }
}

/// An operator whose clients sign in a way of their own.
@Suite(.tags(.processes), .ownRelay(["RELAY_KEYS_VERIFY_SIGNATURES": "false"])) struct UnverifiedSignatureTests {
  @Test func `signatures are opaque where they are not verified`() async throws {
    let relay = try suiteRelay().relay
    let owner = try await relay.register()
    let signed = #"{"keyId":1,"publicKey":"a","signature":"b"}"#
    #expect(try await relay.send("PUT", "/v2/keys/signed", json: signed, as: owner).status == 415, "signed by nobody")
    let upload = #"{"identityKey":"I","preKeys":[],"signedPreKey":\#(signed)}"#
    #expect(try await relay.send("PUT", "/v2/keys", json: upload, as: owner).status == 200)
    #expect(try await relay.send("GET", "/v2/keys/signed", as: owner).text == signed)
    let next = #"{"keyId":2,"publicKey":"c","signature":"d"}"#
    #expect(try await relay.send("PUT", "/v2/keys/signed", json: next, as: owner).status == 200)
    #expect(try await relay.send("GET", "/v2/keys/signed", as: owner).text == next)
  }
}

/// The pace at which all together take one device's one-time keys.
@Suite(
  .tags(.processes),
  .ownRelay(
    RelayUnderTest.unlimited.merging([
      "RELAY_LIMITS_PREKEYS_TARGET_SIZE": "3", "RELAY_LIMITS_PREKEYS_TARGET_PER_MINUTE": "0",
    ]) { $1 }))
struct PreKeyTargetTests {
  @Test func `beyond the pace of a device its last resort serves, for everybody, and nothing is taken`() async throws {
    let suite = try suiteRelay()
    let (relay, owner) = (suite.relay, try await suite.relay.register())
    let linked = try await suite.site.linkDevice(2, registrationID: 5, to: owner)
    let keys = try SignedKeys()
    try await relay.upload(keys, Array(1...9), as: owner)
    try await relay.upload(keys, Array(11...19), as: linked)
    var drawn: [[Int]] = []
    for _ in 0..<5 {
      let caller = try await relay.register()
      let answer = try await relay.send("GET", "/v2/keys/\(owner.number)/*", as: caller)
      drawn.append(answer.list("devices").compactMap { ($0["preKey"] as? [String: Any])?["keyId"] as? Int })
    }
    let last = 16_777_215
    #expect(drawn == [[1, 11], [2, 12], [3, 13], [last, last], [last, last]])
    #expect(try await relay.send("GET", "/v2/keys", as: owner).text == #"{"count":6}"#)
    #expect(try await relay.ask("/metrics").text.contains("relay_prekeys_limited_total 4\n"))
  }
}
