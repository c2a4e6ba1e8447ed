import Foundation
import Relay
import RelayCore
import TestSupport
import TestTags
import Testing

/// Signed number tokens (reference 2.6, 5.6).
@Suite(.tags(.processes)) struct NumberTokenTests {
  @Test func `the published tokens are made and judged as published`() throws {
    let vectors = try WholeRelayVectorTests.load("authorization_token")
    #expect(vectors.count == 3)
    for vector in vectors {
      let name = try #require(vector["number"] as? String)
      let number = try #require(AccountNumber(e164: name))
      let seconds = try #require(vector["seconds"] as? NSNumber).int64Value
      let token = Secret(try #require(vector["token"] as? String))
      let key = try #require(vector["key_hex"] as? String)
      #expect(try tokens(key, at: seconds * 1000).token(for: number, second: seconds) == token)
      let checks = try #require(vector["checks"] as? [[String: Any]])
      #expect(!checks.isEmpty)
      for check in checks {
        let now = try #require(check["now_millis"] as? NSNumber).int64Value
        // The published ones are good for a day, ours for ten minutes.
        let isGood = check["valid"] as? Bool == true && now < (seconds + 600) * 1000
        #expect(try tokens(key, at: now).second(of: token, for: number) == (isGood ? seconds : nil), "\(now)")
      }
    }
  }

  @Test func `a token is good for one number, whole, and under one key`() throws {
    let number = try #require(AccountNumber(e164: "+14152222222"))
    let other = try #require(AccountNumber(e164: "+14152222223"))
    let (key, now) = (String(repeating: "0a", count: 32), Int64(1_700_000_000_000))
    let issuer = try tokens(key, at: now)
    let token = issuer.token(for: number, second: now / 1000)
    #expect(issuer.second(of: token, for: number) == now / 1000)
    #expect(issuer.second(of: token, for: other) == nil)
    #expect(try tokens(String(repeating: "0b", count: 32), at: now).second(of: token, for: number) == nil)
    for index in token.value.indices {
      var altered = token.value
      altered.replaceSubrange(index...index, with: altered[index] == "1" ? "2" : "1")
      #expect(issuer.second(of: Secret(altered), for: number) == nil, "\(index)")
    }
    let text = token.value
    for malformed in [
      "", ":", "::", ":::", text + ":", ":" + text, text + "0", String(text.dropLast()), text.uppercased(),
      text.replacing(":", with: "::"), "\(number.e164):-1:00", "\(number.e164):\(String(repeating: "9", count: 30)):00",
    ] { #expect(issuer.second(of: Secret(malformed), for: number) == nil, "\(malformed)") }
  }

  @Test func `a token is good for less than ten minutes, and a minute before its second`() throws {
    let number = try #require(AccountNumber(e164: "+14152222222"))
    let (key, now) = (String(repeating: "0a", count: 32), Int64(1_700_000_000_000))
    let token = try tokens(key, at: now).token(for: number, second: now / 1000)
    for (distance, isGood) in [
      (0, true), (599_999, true), (600_000, false), (-60_000, true), (-60_001, false), (86_400_000, false),
    ] as [(Int64, Bool)] {
      let second = try tokens(key, at: now + distance).second(of: token, for: number)
      #expect((second != nil) == isGood, "\(distance)")
    }
  }

  private func tokens(_ keyHex: String, at millis: Int64) throws -> NumberTokens {
    let digits = Array(keyHex)
    let bytes = try stride(from: 0, to: digits.count, by: 2).map {
      try #require(UInt8(String(digits[$0...$0 + 1]), radix: 16))
    }
    return NumberTokens(key: SecretBytes(bytes), clock: WallClock { Timestamp(millis: millis) })
  }
}

private let tokenKey = "3a078586eea8971155f5c1ebd73c8c923cbec1c3ed22a54722e4e88321dc749f"

@Suite(
  .tags(.processes), .ownRelay(RelayUnderTest.unlimited.merging(["RELAY_VERIFICATION_TOKEN_KEY": tokenKey]) { $1 }))
struct NumberTokenRegistrationTests {
  let site: RelayOperator
  let relay: RelayProcess

  init() throws {
    let suite = try suiteRelay()
    (site, relay) = (suite.site, suite.relay)
  }

  private let attributes = #"{"signalingKey":"c2ln","fetchesMessages":true}"#

  private func token(of device: TestDevice) async throws -> String {
    let answer = try await relay.send("GET", "/v1/accounts/token/", as: device)
    #expect(answer.status == 200)
    #expect(answer.headers["cache-control"] == "no-store")
    return try #require(answer.object["token"] as? String)
  }

  @Test func `a token registers its number in the place of the former installation`() async throws {
    let former = try await relay.register()
    let token = try await token(of: former)
    #expect(try #/\+\d+:\d+:[0-9a-f]{20}/#.wholeMatch(in: token) != nil)
    let present = TestDevice(number: former.number, password: "present")
    let answer = try await relay.send("PUT", "/v1/accounts/token/\(token)", json: attributes, as: present)
    #expect(answer.status == 200)
    #expect(answer.body.isEmpty)
    #expect(try await relay.send("GET", "/v1/keys", as: former).status == 401)
    #expect(try await relay.send("GET", "/v1/keys", as: present).status == 200)
  }

  @Test func `a token of another number is refused, and so is any other text`() async throws {
    let token = try await token(of: try await relay.register())
    let other = TestDevice(number: TestDevice.freshNumber(), password: "p")
    for text in [token, "x", "%3A%3A", String(token.dropLast()), "123456"] {
      let answer = try await relay.send("PUT", "/v1/accounts/token/\(text)", json: attributes, as: other)
      #expect(answer.status == 403, "\(text)")
      #expect(answer.text.hasPrefix("token-refused: "))
    }
    #expect(try await relay.send("PUT", "/v1/accounts/token/\(token)", json: attributes).status == 401)
    #expect(try await relay.send("PUT", "/v1/accounts/token/\(token)", json: "{}", as: other).status == 415)
  }

  @Test func `no claim of a peer stands against a token`() async throws {
    let device = try await relay.register()
    let token = try await token(of: device)
    try await site.listAtPeer("elsewhere", tokens: [try TestTokens.contactToken(of: device.number)])
    let answer = try await relay.send("PUT", "/v1/accounts/token/\(token)", json: attributes, as: device)
    #expect(answer.status == 200)
  }
}

@Suite(.tags(.processes), .ownRelay) struct NoNumberTokenTests {
  @Test func `without a key there are no tokens, and none is good`() async throws {
    let relay = try suiteRelay().relay
    let device = try await relay.register()
    #expect(try await relay.send("GET", "/v1/accounts/token", as: device).status == 404)
    #expect(try await relay.send("GET", "/v1/accounts/token").status == 401)
    let token = "\(device.number):1:00000000000000000000"
    let answer = try await relay.send(
      "PUT", "/v1/accounts/token/\(token)", json: #"{"signalingKey":"c2ln"}"#, as: device)
    #expect(answer.status == 403)
    #expect(answer.text.hasPrefix("token-refused: "))
  }
}
