import TestSupport
import TestTags
import Testing

private let tightLimits = [
  "RELAY_LIMITS_MESSAGES_SIZE": "3", "RELAY_LIMITS_MESSAGES_PER_MINUTE": "1",
  "RELAY_LIMITS_CONTACT_QUERIES_SIZE": "10", "RELAY_LIMITS_CONTACT_QUERIES_PER_MINUTE": "1",
  "RELAY_LIMITS_PREKEYS_SIZE": "3", "RELAY_LIMITS_PREKEYS_PER_MINUTE": "0.1",
  "RELAY_LIMITS_SMS_DESTINATION_PER_MINUTE": "0.5", "RELAY_LIMITS_VERIFY_NUMBER_PER_MINUTE": "0",
  "RELAY_LIMITS_ACCOUNT_CHANGES_SIZE": "4", "RELAY_LIMITS_ACCOUNT_CHANGES_PER_MINUTE": "1",
]

/// A refusal that says when to come back.
private func expectLimited(_ answer: Answer, within seconds: ClosedRange<Int>) throws {
  #expect(answer.status == 413, "\(answer.text)")
  #expect(answer.text.hasPrefix("rate-limited: "))
  let wait = try #require(answer.headers["retry-after"].flatMap { Int($0) })
  #expect(seconds.contains(wait), "\(wait) s")
}

/// Buckets at the sizes of reference 3.6, or small ones where those are large.
@Suite(.tags(.processes), .ownRelay(tightLimits)) struct LimitTests {
  let relay: RelayProcess
  let caller: TestDevice

  init() async throws {
    relay = try suiteRelay().relay
    caller = try await relay.register()
  }

  @Test func `codes for one number are limited, by transport`() async throws {
    let number = TestDevice.freshNumber()
    for transport in ["sms", "dev"] {
      #expect(try await relay.send("GET", "/v1/accounts/\(transport)/code/\(number)").status == 200)
    }
    try expectLimited(try await relay.send("GET", "/v1/accounts/sms/code/\(number)"), within: 1...120)
    #expect(try await relay.send("GET", "/v1/accounts/voice/code/\(number)").status == 200)
    #expect(try await relay.send("GET", "/v1/accounts/sms/code/\(TestDevice.freshNumber())").status == 200)
  }

  @Test func `tries to confirm one number are limited; where nothing comes back nothing is promised`() async throws {
    let device = TestDevice(number: TestDevice.freshNumber(), password: "p")
    let body = #"{"signalingKey":"c2ln"}"#
    for _ in 0..<2 {
      #expect(try await relay.send("PUT", "/v1/accounts/code/111111", json: body, as: device).status == 403)
    }
    let answer = try await relay.send("PUT", "/v1/accounts/code/111111", json: body, as: device)
    #expect(answer.status == 413)
    #expect(answer.headers["retry-after"] == nil)
  }

  @Test func `draws are limited by caller, target and selector`() async throws {
    let owner = try await relay.register()
    try await relay.upload([1, 2, 3, 4, 5, 6, 7, 8, 9], as: owner)
    let draw = { (selector: String, device: TestDevice) in
      try await relay.send("GET", "/v1/keys/\(owner.number)/\(selector)", as: device)
    }
    for _ in 0..<3 { #expect(try await draw("1", caller).status == 200) }
    try expectLimited(try await draw("1", caller), within: 1...600)
    #expect(try await relay.send("GET", "/v1/keys", as: owner).text == #"{"count":6}"#)
    #expect(try await draw("*", caller).status == 200)
    #expect(try await draw("1", owner).status == 200)
  }

  @Test func `what an account changes of itself is limited, whatever it is`() async throws {
    try await relay.upload([1], as: caller)
    try await relay.upload([2], as: caller)
    #expect(try await relay.send("PUT", "/v1/accounts/wsc", as: caller).status == 200)
    let attributes = #"{"signalingKey":"c2ln","fetchesMessages":true}"#
    #expect(try await relay.send("PUT", "/v1/accounts/attributes", json: attributes, as: caller).status == 200)
    try expectLimited(try await relay.send("DELETE", "/v1/accounts/wsc", as: caller), within: 1...60)
    let keys = #"{"lastResortKey":{"keyId":9,"publicKey":"BWM","identityKey":"BWE"},"keys":[]}"#
    try expectLimited(try await relay.send("PUT", "/v1/keys", json: keys, as: caller), within: 1...60)
    // Reading is not, and nobody else is.
    #expect(try await relay.send("GET", "/v1/keys", as: caller).text == #"{"count":1}"#)
    #expect(try await relay.send("PUT", "/v1/accounts/wsc", as: try await relay.register()).status == 200)
  }

  @Test func `messages are limited by caller and destination`() async throws {
    let (first, second) = (try await relay.register(), try await relay.register())
    for time in 1...3 {
      let json = bundle(message(), timestamp: Int64(time))
      #expect(try await relay.send("PUT", "/v1/messages/\(first.number)", json: json, as: caller).status == 200)
    }
    let refused = try await relay.send("PUT", "/v1/messages/\(first.number)", json: bundle(message()), as: caller)
    try expectLimited(refused, within: 1...60)
    #expect(try await relay.mailbox(of: first).count == 3)
    let other = try await relay.send("PUT", "/v1/messages/\(second.number)", json: bundle(message()), as: caller)
    #expect(other.status == 200)
  }

  @Test func `a bundle costs what it brings for one device`() async throws {
    let recipient = try await relay.register()
    let path = "/v1/messages/\(recipient.number)"
    let bodies = ["YQ==", "Yg==", "Yw=="].map { message($0) }.joined(separator: ",")
    let refused = try await relay.send("PUT", path, json: #"{"messages":[]}"#, as: caller)
    #expect(refused.status == 409, "names the devices, and is charged for it")
    try expectLimited(
      try await relay.send("PUT", path, json: #"{"messages":[\#(bodies)],"timestamp":1}"#, as: caller), within: 1...60)
    #expect(try await relay.mailbox(of: recipient).isEmpty)

    let other = try await relay.register()
    let bundle = #"{"messages":[\#(bodies)],"timestamp":1}"#
    let accepted = try await relay.send("PUT", "/v1/messages/\(recipient.number)", json: bundle, as: other)
    #expect(accepted.status == 200)
    try expectLimited(
      try await relay.send("PUT", path, json: #"{"messages":[\#(message())]}"#, as: other), within: 1...60)
  }

  @Test func `all together take no more than a fifth of a supply at once`() async throws {
    let owner = try await relay.register()
    try await relay.upload(Array(1...100), as: owner)
    for _ in 0..<8 {
      let requester = try await relay.register()
      for _ in 0..<3 {
        #expect(try await relay.send("GET", "/v1/keys/\(owner.number)/1", as: requester).status == 200)
      }
    }
    let left = try await relay.send("GET", "/v1/keys", as: owner).object["count"] as? Int
    #expect((77...80).contains(try #require(left)), "one comes back each minute")
  }

  @Test func `look-ups are charged by token, and a refused one costs nothing`() async throws {
    let token = try TestTokens.token(of: TestDevice.freshNumber())
    let ask = { (count: Int) in
      let list = Array(repeating: "\"\(token)\"", count: count).joined(separator: ",")
      return try await relay.send("PUT", "/v1/directory/tokens", json: #"{"contacts":[\#(list)]}"#, as: caller)
    }
    #expect(try await ask(6).status == 200)
    try expectLimited(try await ask(5), within: 1...60)
    #expect(try await ask(3).status == 200)
    let path = "/v1/directory/\(try TestTokens.urlSafe(caller.number))"
    #expect(try await relay.send("GET", path, as: caller).status == 200)
    let last = try await relay.send("GET", path, as: caller)
    try expectLimited(last, within: 1...60)
    #expect(try await ask(11).headers["retry-after"] == nil)
  }
}

private let ownLimits = RelayUnderTest.unlimited.merging([
  "RELAY_LIMITS_PREKEYS_TARGET_SIZE": "2", "RELAY_LIMITS_PREKEYS_TARGET_PER_MINUTE": "0.1",
  "RELAY_LIMITS_RECEIPTS_SIZE": "2", "RELAY_LIMITS_RECEIPTS_PER_MINUTE": "1",
  "RELAY_LIMITS_ATTACHMENTS_SIZE": "2", "RELAY_LIMITS_ATTACHMENTS_PER_MINUTE": "1",
  "RELAY_LIMITS_ALLOCATE_DEVICE_SIZE": "2", "RELAY_LIMITS_VERIFY_DEVICE_SIZE": "2",
]) { $1 }

/// The other limiters, small.
@Suite(.tags(.processes), .ownRelay(ownLimits)) struct FurtherLimitTests {
  let relay: RelayProcess
  let caller: TestDevice

  init() async throws {
    relay = try suiteRelay().relay
    caller = try await relay.register()
  }

  @Test func `one-time keys of one device are limited across all requesters; then the last resort serves`()
    async throws
  {
    let owner = try await relay.register()
    try await relay.upload([1, 2, 3, 4], as: owner)
    var keys: [Int?] = []
    for _ in 0..<4 {
      let requester = try await relay.register()
      let answer = try await relay.send("GET", "/v1/keys/\(owner.number)/*", as: requester)
      #expect(answer.status == 200, "nobody is kept from writing")
      keys.append(answer.list("keys").first?["keyId"] as? Int)
    }
    #expect(keys == [1, 2, 16_777_215, 16_777_215])
    #expect(try await relay.send("GET", "/v1/keys", as: owner).text == #"{"count":2}"#)
    let other = try await relay.register()
    try await relay.upload([7], as: other)
    let drawn = try await relay.send("GET", "/v1/keys/\(other.number)/1", as: caller).list("keys")
    #expect(drawn.first?["keyId"] as? Int == 7, "another device has a bucket of its own")
  }

  @Test func `explicit receipts are limited`() async throws {
    let sender = try await relay.register()
    for time in 1...3 {
      let json = bundle(message(), timestamp: Int64(time))
      #expect(try await relay.send("PUT", "/v1/messages/\(caller.number)", json: json, as: sender).status == 200)
    }
    for time in 1...2 {
      #expect(try await relay.send("PUT", "/v1/receipt/\(sender.number)/\(time)", as: caller).status == 200)
    }
    try expectLimited(try await relay.send("PUT", "/v1/receipt/\(sender.number)/3", as: caller), within: 1...60)
    #expect(try await relay.mailbox(of: sender).count == 2)
  }

  @Test func `new attachments are limited by account`() async throws {
    for _ in 0..<2 { #expect(try await relay.send("GET", "/v1/attachments", as: caller).status == 200) }
    try expectLimited(try await relay.send("GET", "/v1/attachments", as: caller), within: 1...60)
    #expect(try await relay.send("GET", "/v1/attachments", as: try await relay.register()).status == 200)
  }

  @Test func `links of devices are limited, and the tries to confirm them`() async throws {
    for path in ["provisioning_code", "provisioning/code"] {
      #expect(try await relay.send("GET", "/v1/devices/\(path)", as: caller).status == 200)
    }
    try expectLimited(try await relay.send("GET", "/v1/devices/provisioning/code", as: caller), within: 1...120)
    let linked = TestDevice(number: caller.number, password: "linked")
    for _ in 0..<2 {
      let answer = try await relay.send("PUT", "/v1/devices/000000", json: #"{"signalingKey":"c2ln"}"#, as: linked)
      #expect(answer.status == 403)
    }
    let refused = try await relay.send("PUT", "/v1/devices/000000", json: #"{"signalingKey":"c2ln"}"#, as: linked)
    try expectLimited(refused, within: 1...60)
  }
}
