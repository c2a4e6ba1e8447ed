import TestSupport
import TestTags
import Testing

/// Prekeys of version 1 (reference 1.6).
@Suite(.tags(.processes), .ownRelay) struct KeysTests {
  let site: RelayOperator
  let relay: RelayProcess
  let caller: TestDevice
  let owner: TestDevice

  init() async throws {
    let suite = try suiteRelay()
    (site, relay) = (suite.site, suite.relay)
    caller = try await relay.register()
    owner = try await relay.register(registrationID: 4242)
  }

  private func draw(_ selector: String = "/1", query: String = "") async throws -> Answer {
    try await relay.send("GET", "/v1/keys/\(owner.number)\(selector)\(query)", as: caller)
  }

  /// The ids of the next `count` keys.
  private func draw(count: Int) async throws -> [Int] {
    var ids: [Int] = []
    for _ in 0..<count { ids += try await draw().list("keys").compactMap { $0["keyId"] as? Int } }
    return ids
  }

  private func count() async throws -> String { try await relay.send("GET", "/v1/keys", as: owner).text }

  @Test func `a number that is unknown here is told its likely cause`() async throws {
    let nobody = TestDevice.freshNumber()
    for query in ["", "?relay=elsewhere"] {
      for path in ["/v1/keys/\(nobody)", "/v1/keys/\(nobody)/*", "/v2/keys/\(nobody)/1"] {
        let answer = try await relay.send("GET", path + query, as: caller)
        #expect(
          answer.status == 404 && answer.text.hasPrefix("not-found: There is no such resource. The number has no"))
        #expect(answer.text.contains("name the `relay` that the directory tells") && !answer.text.contains(nobody))
      }
    }
    let sent = try await relay.send("PUT", "/v1/messages/\(nobody)", json: bundle(message()), as: caller)
    #expect(sent.status == 404 && sent.text.contains("`relay`"))
    let path = try await relay.send("GET", "/v1/nothing", as: caller)
    #expect(path.text == "not-found: There is no such resource.\n")
  }

  @Test func `the supply counts one-time keys only`() async throws {
    #expect(try await count() == #"{"count":0}"#)
    try await relay.upload([1, 2, 3], as: owner)
    #expect(try await count() == #"{"count":3}"#)
    _ = try await draw(count: 5)
    #expect(try await count() == #"{"count":0}"#)
  }

  /// Vectors `prekey_selection`, the recommended rule.
  @Test(arguments: [
    ([5, 3, 9], 16_777_215, [3, 5, 9, 16_777_215, 16_777_215]),
    ([1_048_570, 2_000_000], 1_048_575, [1_048_570, 2_000_000, 1_048_575]),
    ([], 7, [7, 7]),
  ])
  func `one-time keys come by smallest id, then the last resort`(ids: [Int], last: Int, served: [Int]) async throws {
    try await relay.upload(ids, lastResort: last, as: owner)
    #expect(try await draw(count: served.count) == served)
  }

  @Test func `a key of id 0 is like any other and keeps its id on the wire`() async throws {
    try await relay.upload([0, 1], as: owner)
    let answer = try await draw()
    #expect(answer.text.contains(#""keyId":0"#))
    #expect(try await draw(count: 1) == [1])
  }

  @Test func `a draw of all devices answers for each active device that has a key`() async throws {
    let second = try await site.linkDevice(2, registrationID: 77, to: owner)
    try await relay.upload([1], prefix: "first", as: owner)
    let third = try await site.linkDevice(3, registrationID: 78, to: owner)
    try await relay.upload([5], prefix: "second", as: second)
    _ = third  // Has no key.
    for selector in ["/*", "/%2A"] {
      let keys = try await draw(selector).list("keys")
      #expect(keys.compactMap { $0["deviceId"] as? Int } == [1, 2])
      #expect(keys.compactMap { $0["registrationId"] as? Int } == [4242, 77])
      #expect(keys.compactMap { $0["identityKey"] as? String } == ["identity", "identity"])
    }
    #expect(try await draw("/2").list("keys").count == 1)
    #expect(try await draw("/3").status == 404)
  }

  @Test func `keys are opaque texts that come back unchanged`() async throws {
    let text = String(repeating: "é≠", count: 20) + "=="
    let body = #"{"lastResortKey":{"keyId":9,"publicKey":"\#(text)","identityKey":"I","lastResort":true},"keys":[]}"#
    #expect(try await relay.send("PUT", "/v1/keys", json: body, as: owner).status == 200)
    let key = try #require(try await draw().list("keys").first)
    #expect(key["publicKey"] as? String == text)
    #expect(key["identityKey"] as? String == "I")
    #expect(key["keyId"] as? Int == 9)
  }

  @Test func `the oldest form answers with one bare key of device 1`() async throws {
    try await relay.upload([4], as: owner)
    let answer = try await draw("")
    #expect(answer.headers["content-type"] == "application/json")
    let key = answer.object
    #expect(Set(key.keys) == ["deviceId", "keyId", "publicKey", "identityKey", "registrationId"])
    #expect(key["keyId"] as? Int == 4)
    #expect(key["deviceId"] as? Int == 1)
    #expect(key["publicKey"] as? String == "key-4")
  }

  @Test func `an upload replaces what was there`() async throws {
    try await relay.upload([1, 2, 3], prefix: "old", as: owner)
    try await relay.upload([2], prefix: "new", as: owner)
    #expect(try await count() == #"{"count":1}"#)
    let drawn = [try await draw(), try await draw()].flatMap { $0.list("keys") }
    #expect(drawn.map { $0["publicKey"] as? String } == ["new-2", "new-last"])
  }

  @Test func `one's own keys may be drawn`() async throws {
    try await relay.upload([1], as: owner)
    #expect(try await relay.send("GET", "/v1/keys/\(owner.number)/*", as: owner).list("keys").count == 1)
  }

  @Test(arguments: ["x", "1x", "**", "%00", "1.5"])
  func `a selector that is neither number nor star is refused`(selector: String) async throws {
    try await relay.upload([1], as: owner)
    let expected = selector == "%00" ? [404, 422] : [422]
    #expect(expected.contains(try await draw("/\(selector)").status))
    #expect(try await count() == #"{"count":1}"#)
  }

  @Test func `an account that does not exist, is unreachable or has no key is not found`() async throws {
    #expect(try await draw().status == 404)
    #expect(try await draw("/*").status == 404)
    #expect(try await draw("").status == 404)
    try await relay.upload([1], as: owner)
    #expect(try await draw("/2").status == 404)
    for number in [TestDevice.freshNumber(), "x", "+123", "%FF"] {
      #expect(try await relay.send("GET", "/v1/keys/\(number)/*", as: caller).status == 404, "\(number)")
    }
    let silent = TestDevice.freshNumber()
    let code = try await relay.code(for: silent)
    let device = TestDevice(number: silent, password: "p")
    let body = #"{"signalingKey":"c2ln"}"#
    #expect(try await relay.send("PUT", "/v1/accounts/code/\(code)", json: body, as: device).status == 200)
    try await relay.upload([1], as: device)
    #expect(try await relay.send("GET", "/v1/keys/\(silent)/1", as: caller).status == 404)
  }

  @Test func `an empty relay counts as none, an unknown one is not found`() async throws {
    try await relay.upload([1], as: owner)
    #expect(try await draw(query: "?relay=").status == 200)
    for name in ["nowhere", "UPPER", "a%20b", "%00"] {
      #expect(try await draw(query: "?relay=\(name)").status == 404, "\(name)")
    }
  }

  @Test(arguments: [
    "{}", #"{"keys":[]}"#, #"{"lastResortKey":{"keyId":1,"publicKey":"a","identityKey":"b"}}"#,
    #"{"lastResortKey":null,"keys":[]}"#, #"{"lastResortKey":{"keyId":1,"publicKey":"a"},"keys":[]}"#,
    #"{"lastResortKey":{"keyId":1,"publicKey":"","identityKey":"b"},"keys":[]}"#,
    #"{"lastResortKey":{"keyId":-1,"publicKey":"a","identityKey":"b"},"keys":[]}"#,
    #"{"lastResortKey":{"keyId":1,"publicKey":7,"identityKey":"b"},"keys":[]}"#,
    #"{"lastResortKey":{"keyId":1,"publicKey":"a","identityKey":"b"},"keys":{}}"#,
    #"{"lastResortKey":{"keyId":1,"publicKey":"a","identityKey":"b"},"keys":[{"keyId":1,"identityKey":"b"}]}"#,
  ])
  func `a malformed upload is refused and changes nothing`(body: String) async throws {
    try await relay.upload([1, 2], as: owner)
    #expect(try await relay.send("PUT", "/v1/keys", json: body, as: owner).status == 415)
    #expect(try await count() == #"{"count":2}"#)
  }

  @Test(arguments: ["0", "-1", "4294967296", "99999999999999999999"])
  func `an integer that no device can have is not found`(selector: String) async throws {
    try await relay.upload([1], as: owner)
    let path = "/v1/keys/\(owner.number)/\(selector)"
    #expect(try await relay.send("GET", path, as: owner).status == 404)
  }

  @Test func `an upload has at most 1000 keys`() async throws {
    try await relay.upload(Array(1...1000), as: owner)
    #expect(try await count() == #"{"count":1000}"#)
    let keys = (1...1001).map { #"{"keyId":\#($0),"publicKey":"a","identityKey":"b"}"# }.joined(separator: ",")
    let body = #"{"lastResortKey":{"keyId":1,"publicKey":"a","identityKey":"b"},"keys":[\#(keys)]}"#
    #expect(try await relay.send("PUT", "/v1/keys", json: body, as: owner).status == 413)
    #expect(try await count() == #"{"count":1000}"#)
  }

  @Test func `callers at once never get one key twice`() async throws {
    try await relay.upload(Array(1...100), as: owner)
    let ids = try await withThrowingTaskGroup(of: [Int].self) { group in
      for _ in 0..<10 { group.addTask { try await draw(count: 10) } }
      return try await group.reduce(into: []) { $0 += $1 }
    }
    #expect(ids.sorted() == Array(1...100))
  }
}
