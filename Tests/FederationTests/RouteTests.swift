import Federation
import Foundation
import NIOCore
import NIOHTTP1
import RelayCore
import Storage
import TestSupport
import TestTags
import Testing
import X509

/// The paths of reference 1.13.2, as a peer of any make would call them.
@Suite(.tags(.stores)) struct RouteTests {
  @Test func `keys come in both forms`() async throws {
    try await withPeerClient { _, client in
      let first = try await client.get("/v1/federation/key/+14155550100")
      #expect(first.status == 200)
      // Peers of the first generation refuse properties that they do not know.
      #expect(first.text == #"{"keyId":7,"publicKey":"public","identityKey":"identity"}"#)
      let all = try await client.get("/v1/federation/key/%2B14155550100/*/")
      #expect(all.status == 200)
      #expect(all.text.hasPrefix(#"{"keys":[{"deviceId":1,"keyId":7,"#))
      let one = try await client.get("/v1/federation/key/+14155550100/2")
      #expect(one.text.contains(#""deviceId":2"#) && !one.text.contains(#""deviceId":1"#))
      #expect(try await client.get("/v1/federation/key/+14155550100/9").status == 404)
      #expect(try await client.get("/v1/federation/key/+14155550199").status == 404)
      #expect(try await client.get("/v1/federation/key/+14155550100/x").status == 422)
      #expect(try await client.get("/v1/federation/key/nobody").status == 404)
      #expect(try await client.send(.PUT, "/v1/federation/key/+14155550100").status == 405)
    }
  }

  @Test func `signed keys come without properties that peers do not know`() async throws {
    try await withPeerClient { _, client in
      let all = try await client.get("/v2/federation/key/+14155550100/*")
      #expect(all.status == 200)
      #expect(
        try normalJSON(all.text)
          == normalJSON(
            #"""
            {"identityKey": "identity", "devices": [
              {"deviceId": 1, "registrationId": 101, "preKey": {"keyId": 7, "publicKey": "public"},
               "signedPreKey": {"keyId": 5, "publicKey": "signed", "signature": "signature"}},
              {"deviceId": 2, "registrationId": 102, "preKey": {"keyId": 14, "publicKey": "public"},
               "signedPreKey": null},
              {"deviceId": 3, "registrationId": 103, "preKey": null,
               "signedPreKey": {"keyId": 5, "publicKey": "signed", "signature": "signature"}}]}
            """#))
      #expect(try await client.get("/v2/federation/key/+14155550100/3").status == 200)
      #expect(try await client.get("/v1/federation/key/+14155550100/3").status == 404)
      #expect(try await client.get("/v2/federation/key/+14155550100/x").status == 422)
      #expect(try await client.get("/v2/federation/key/+14155550199/1").status == 404)
      #expect(try await client.send(.PUT, "/v2/federation/key/+14155550100/1").status == 405)
    }
  }

  @Test func `messages arrive under the name that the certificate proved`() async throws {
    try await withPeerClient { relay, client in
      let answer = try await client.send(
        .PUT, "/v1/federation/messages/+14155550177/3/+14155550100/",
        body: #"{"relay":"someone-else","timestamp":1700000000001,"messages":[{"type":1,"body":"AQID"}]}"#)
      #expect(answer.status == 200)
      #expect(answer.body.readableBytes == 0)
      let call = try #require(relay.intake.calls.first)
      let source = DeviceAddress(try number("+14155550177"), try #require(DeviceID(3)))
      #expect(call.origin == .peer(try name("beta"), source: source))
      #expect(call.submission.destination == (try number("+14155550100")))
      #expect(call.submission.timestamp == Timestamp(millis: 1_700_000_000_001))
      #expect(call.submission.messages.map(\.body) == [[1, 2, 3]])
    }
  }

  @Test func `a peer may not speak for our accounts`() async throws {
    try await withPeerClient { relay, client in
      let answer = try await client.send(
        .PUT, "/v1/federation/messages/+14155550111/1/+14155550100", body: #"{"messages":[]}"#)
      #expect(answer.status == 403)
      #expect(answer.text.hasPrefix("source-refused"))
      #expect(relay.intake.calls.isEmpty)
    }
  }

  @Test func `refusals of the intake reach the peer whole`() async throws {
    try await withPeerClient { relay, client in
      let device = try #require(DeviceID(2))
      relay.intake.refuse(with: .mismatched(missing: [device], extra: []))
      let path = "/v1/federation/messages/+14155550177/1/+14155550100"
      let answer = try await client.send(.PUT, path, body: #"{"messages":[]}"#)
      #expect(answer.status == 409)
      #expect(answer.text == #"{"missingDevices":[2],"extraDevices":[]}"#)
    }
  }

  @Test func `hostile bodies are refused`() async throws {
    try await withPeerClient { relay, client in
      let path = "/v1/federation/messages/+14155550177/1/+14155550100"
      for body in ["", "{", "[]", #"{"messages":[{"type":1,"body":"*"}]}"#, #"{"messages":[{"type":5}]}"#] {
        let status = try await client.send(.PUT, path, body: body).status
        #expect(status == 415)
      }
      let large = String(repeating: " ", count: WireLimits.messageRequestBytesMax + 1)
      #expect(try await client.send(.PUT, path, body: large).status == 413)
      for bad in ["+1/1/+14155550100", "+14155550177/0/+14155550100", "+14155550177/1/x", "%00/1/+14155550100"] {
        #expect(try await client.send(.PUT, "/v1/federation/messages/\(bad)", body: #"{"messages":[]}"#).status == 404)
      }
      #expect(relay.intake.calls.isEmpty)
      #expect(try await client.get("/v1/federation/user_count").status == 200)
    }
  }

  @Test func `the listing is paged and tagged`() async throws {
    let listing = ListedAccounts(try tokens(10_001, inactive: [10_000]))
    try await withPeerClient(listing: listing) { _, client in
      let count = try await client.get("/v1/federation/user_count")
      #expect(count.text == #"{"count":10001}"#)
      let tag = try #require(count.headers.first(name: "ETag"))
      let again = try await client.get("/v1/federation/user_count", headers: ["If-None-Match": tag])
      #expect(again.status == 304)
      let first = try await client.get("/v1/federation/user_tokens/0")
      #expect(first.text.components(separatedBy: "token").count == 10_001)
      let second = try await client.get("/v1/federation/user_tokens/10000/")
      let token = try tokens(10_001)[10_000].token.base64
      #expect(second.text == #"{"contacts":[{"token":"\#(token)","inactive":true}]}"#)
      #expect(try await client.get("/v1/federation/user_tokens/20000").text == #"{"contacts":[]}"#)
      #expect(try await client.get("/v1/federation/user_tokens/x").status == 404)
      #expect(try await client.get("/v1/federation/user_tokens/-1").status == 404)
      listing.replace(with: [])
      #expect(try await client.get("/v1/federation/user_count", headers: ["If-None-Match": tag]).status == 200)
    }
  }

  @Test func `scopes bound what a peer may ask`() async throws {
    try await withPeerClient(scopes: [.keys]) { relay, client in
      #expect(try await client.get("/v1/federation/key/+14155550100").status == 200)
      #expect(try await client.get("/v2/federation/key/+14155550100/1").status == 200)
      let count = try await client.get("/v1/federation/user_count")
      #expect(count.status == 403)
      #expect(count.text.hasPrefix("scope-refused"))
      let message = "/v1/federation/messages/+14155550177/1/+14155550100"
      #expect(try await client.send(.PUT, message, body: #"{"messages":[]}"#).status == 403)
      #expect(try await client.send(.PUT, "/v1/receipt/+14155550177/1/+14155550100/1").status == 403)
      #expect(try await client.get("/v1/federation/attachment/7").status == 403)
      #expect(relay.intake.calls.isEmpty && relay.intake.receipts.isEmpty)
      #expect(try await client.get("/v1/federation/peering").text.hasPrefix(#"{"name":"beta","state":"active""#))
    }
    try await withPeerClient(scopes: [.messages, .attachments]) { _, client in
      let keys = try await client.get("/v2/federation/key/+14155550100/1")
      #expect(keys.status == 403)
      #expect(try await client.send(.PUT, "/v1/receipt/+14155550177/1/+14155550100/1").status == 200)
      #expect(try await client.get("/v1/federation/attachment/7").status == 200)
    }
  }
}

/// A client that holds the certificate of `beta`, a peer.
func withPeerClient(
  scopes: Set<Peer.Scope> = Set(Peer.Scope.allCases), listing: (any DirectoryStore)? = nil,
  epochs: (any EpochStore)? = nil, checksReceipts: Bool = false, buckets: [LimiterName: Bucket] = [:],
  laneTimeMax: Duration = .seconds(300), _ body: @Sendable (TestRelay, RawClient) async throws -> Void
) async throws {
  try await withRelay(
    "alpha", listing: listing, epochs: epochs, checksReceipts: checksReceipts, buckets: buckets,
    laneTimeMax: laneTimeMax
  ) { relay in
    try await withPeer("beta", of: relay, scopes: scopes) { try await body(relay, $0) }
  }
}

/// A client that holds the certificate of another peer of `relay`.
func withPeer(
  _ name: String, of relay: TestRelay, scopes: Set<Peer.Scope> = Set(Peer.Scope.allCases),
  _ body: (RawClient) async throws -> Void
) async throws {
  let authority = try TestAuthority(name)
  try await save(authority, as: name, at: relay, scopes: scopes)
  let configuration = try authority.leaf(relay: name).clientConfiguration(trusting: relay.ownAuthority)
  try await withClient(to: relay.endpoint.text, configuration, body)
}

/// The same bytes for texts that say the same.
func normalJSON(_ text: String) throws -> Data {
  try JSONSerialization.data(withJSONObject: JSONSerialization.jsonObject(with: Data(text.utf8)), options: .sortedKeys)
}

func number(_ text: String) throws -> AccountNumber { try #require(AccountNumber(e164: text)) }

/// `count` accounts with distinct tokens.
func tokens(_ count: Int, from start: Int = 0, inactive: Set<Int> = []) throws -> [ListedAccount] {
  try (start..<start + count).map { index in
    let bytes = withUnsafeBytes(of: UInt64(index).bigEndian) { [1, 2] + Array($0) }
    return ListedAccount(
      token: try #require(ContactToken(bytes: bytes)), isInactive: inactive.contains(index), supportsSMS: false,
      voice: false)
  }
}
