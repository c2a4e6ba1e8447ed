import Federation
import NIOHTTP1
import RelayCore
import TestSupport
import TestTags
import Testing

/// The answers to our clients when a peer of another make refuses, or answers wrongly (reference 1.13.4).
@Suite(.tags(.stores)) struct OddPeerTests {
  @Test func `every request goes to the path of the reference`() async throws {
    try await withScriptedPeers(["alpha"]) { beta, peers in
      peers[0].answer(404)
      for request in try Self.requests() {
        await #expect(throws: Problem.self) { try await request(beta.courier) }
      }
      #expect(
        peers[0].requests.map { "\($0.method) \($0.path)" } == [
          // What it takes together is asked before the first request that could use it.
          "GET /v1/federation/peering", "GET /v1/federation/key/+14155550100/*",
          "GET /v2/federation/key/+14155550100/2", "PUT /v1/federation/messages/+14155550177/1/+14155550100",
          "PUT /v1/receipt/+14155550177/1/+14155550100/1700000000001",
          "GET /v1/federation/attachment/9223372036854775807",
        ])
      let receipt = peers[0].requests[4]
      #expect(receipt.body.isEmpty)
      #expect(receipt.headers.first(name: "Content-Length") == "0")
    }
  }

  @Test func `refusals that concern the client pass, and no others`() async throws {
    let two = try #require(DeviceID(2))
    let limited = Problem(.rateLimited, retryAfter: .seconds(7))
    let cases: [(answer: ScriptedPeer.Answer, problem: Problem)] = [
      (.init(status: 404), Problem(.notFound)),
      (
        .init(status: 409, body: #"{"missingDevices":[2],"extraDevices":[1]}"#),
        .mismatched(missing: [two], extra: [.master])
      ),
      (.init(status: 410, body: #"{"staleDevices":[2]}"#), .stale([two])),
      (.init(status: 413, headers: [("Retry-After", "7")]), limited),
      (.init(status: 413), Problem(.rateLimited)),
      (.init(status: 413, headers: [("Retry-After", "soon")]), Problem(.rateLimited)),
    ]
    try await withScriptedPeers(["alpha"]) { beta, peers in
      for request in try Self.requests() {
        for (answer, expected) in cases {
          peers[0].answer(with: answer)
          let problem = await #expect(throws: Problem.self) { try await request(beta.courier) }
          #expect(problem == expected)
        }
        for status in [204, 301, 400, 401, 403, 405, 409, 410, 411, 415, 417, 422, 500, 501, 503] {
          peers[0].answer(status, status == 204 ? "" : "no JSON")
          // 204 is what historic servers answer to what returns nothing (reference 1.1).
          if status == 204, await Self.succeeds(request, beta.courier) { continue }
          let problem = await #expect(throws: Problem.self) { try await request(beta.courier) }
          #expect(problem?.kind == .peerUnavailable, "\(status)")
        }
      }
    }
  }

  @Test(arguments: [
    "", "{", "[]", "{}", #"{"keys":[]}"#, #"{"devices":[]}"#, #"{"identityKey":"i","devices":[]}"#,
    #"{"identityKey":"i","devices":[{"deviceId":1,"registrationId":1,"preKey":null,"signedPreKey":null}]}"#,
    #"{"devices":[{"deviceId":1,"registrationId":1,"preKey":{"keyId":1,"publicKey":"p"},"signedPreKey":null}]}"#,
    #"{"keys":[{"deviceId":0,"keyId":1,"publicKey":"p","identityKey":"i"}]}"#,
    #"{"keys":[{"deviceId":1,"keyId":1,"publicKey":"","identityKey":"i"}]}"#,
  ])
  func `malformed keys are unavailable`(body: String) async throws {
    try await withScriptedPeers(["alpha"]) { beta, peers in
      peers[0].answer(200, body)
      for version in [PreKeyVersion.one, .two] {
        let problem = await #expect(throws: Problem.self) {
          try await beta.courier.preKeys(
            of: number("+14155550100"), devices: .all, version: version, at: name("alpha"))
        }
        #expect(problem?.kind == .peerUnavailable)
      }
    }
  }

  @Test func `a blob lies at a plain HTTP address, or nowhere`() async throws {
    try await withScriptedPeers(["alpha"]) { beta, peers in
      let (alpha, id) = (try name("alpha"), try #require(AttachmentID(7)))
      func located(_ text: String) async throws -> String {
        peers[0].answer(200, #"{"extra": [1], "location": \#(text)}"#)
        return try await beta.courier.attachmentURL(of: id, at: alpha)
      }
      let long = "https://blobs.example/" + String(repeating: "a", count: 4096 - 22)
      for good in ["http://127.0.0.1:9000/b/7?x=1#f", "HTTPS://[::1]/7", long] {
        let url = try await located("\"\(good)\"")
        #expect(url == good)
      }
      for bad in [
        "null", "1", #""""#, #""ftp://blobs.example/7""#, #""javascript:alert(1)""#, #""//blobs.example/7""#,
        #""https://blobs.example:70000/7""#, #""https://blobs.example:x/7""#, #""https://a:b@blobs.example/7""#,
        #""https://""#, #""https:///7""#, #""https://?x""#, #""https://:443/""#, #""https://@/""#,
        #""https://blobs.example/a b""#, #""https://blobs.example/\r\nSet-Cookie: a""#,
        #""https://blobs.example/\u00e9""#, "\"\(long)a\"",
      ] {
        let problem = await #expect(throws: Problem.self) { try await located(bad) }
        #expect(problem?.kind == .peerUnavailable, "\(bad.prefix(60))")
      }
      peers[0].answer(200, #"{"location":"https://blobs.example/7"}"# + String(repeating: " ", count: 64 << 10))
      let problem = await #expect(throws: Problem.self) {
        try await beta.courier.attachmentURL(of: id, at: alpha)
      }
      #expect(problem?.kind == .peerUnavailable)
    }
  }

  private typealias CourierRequest = @Sendable (PeerCourier) async throws -> Void

  private static func succeeds(_ request: CourierRequest, _ courier: PeerCourier) async -> Bool {
    do {
      try await request(courier)
      return true
    } catch {
      return false
    }
  }

  /// One of each that clients make, to `alpha`.
  private static func requests() throws -> [CourierRequest] {
    let (alpha, account, source) = (try name("alpha"), try number("+14155550100"), try source())
    let two = try #require(DeviceID(2))
    let id = try #require(AttachmentID(Int64.max))
    return [
      { _ = try await $0.preKeys(of: account, devices: .all, version: .one, at: alpha) },
      { _ = try await $0.preKeys(of: account, devices: .one(two), version: .two, at: alpha) },
      { try await $0.submit(Submission(destination: account, messages: [], timestamp: nil), from: source, to: alpha) },
      {
        let timestamp = Timestamp(millis: 1_700_000_000_001)
        try await $0.sendReceipt(for: timestamp, from: source, to: account, at: alpha)
      },
      { _ = try await $0.attachmentURL(of: id, at: alpha) },
    ]
  }
}
