import Foundation
import TestSupport
import TestTags
import Testing

/// One entry of a first-generation request as JSON.
private func entry(_ destination: String, _ body: String = "Zm9v", _ more: String = "") -> String {
  #"{"type":1,"destination":"\#(destination)","body":"\#(body)"\#(more)}"#
}

private func request(_ entries: [String]) -> String { #"{"messages":[\#(entries.joined(separator: ","))]}"# }

/// `POST /v1/messages/` of the first generation (reference 1.8).
@Suite(.tags(.processes), .ownRelay) struct LegacyMessagesTests {
  let site: RelayOperator
  let relay: RelayProcess
  let sender: TestDevice
  let recipient: TestDevice

  init() async throws {
    let suite = try suiteRelay()
    (site, relay) = (suite.site, suite.relay)
    sender = try await relay.register()
    recipient = try await relay.register(registrationID: 333)
  }

  private func post(_ entries: String...) async throws -> Answer {
    try await relay.send("POST", "/v1/messages/", json: request(entries), as: sender)
  }

  private func shown(_ device: TestDevice) async throws -> [Shown] {
    try await relay.mailbox(of: device).map(Shown.init)
  }

  @Test func `an accepted message lies in the mailbox of device 1, with the relay's time`() async throws {
    let before = Int64(Date.now.timeIntervalSince1970 * 1000)
    let answer = try await post(entry(recipient.number, "Zm9v", #","timestamp":1393500009.5,"relay":"""#))
    let after = Int64(Date.now.timeIntervalSince1970 * 1000)
    #expect(answer.status == 200)
    #expect(answer.text == #"{"success":["\#(recipient.number)"],"failure":[]}"#)
    let messages = try await shown(recipient)
    #expect(messages.map(\.message) == ["Zm9v"])
    #expect(messages.map(\.source) == [sender.number] && messages.map(\.type) == [1] && messages.map(\.relay) == [""])
    #expect((before...after).contains(try #require(messages.first?.timestamp)))
    #expect(
      try await relay.send("POST", "/v1/messages", json: request([entry(recipient.number)]), as: sender).status == 200)
  }

  @Test func `other devices of the destination need no copy`() async throws {
    let second = try await site.linkDevice(2, registrationID: 9, to: recipient)
    try await relay.upload([], as: recipient)  // The relay looks at the account anew.
    #expect(try await post(entry(recipient.number)).text == #"{"success":["\#(recipient.number)"],"failure":[]}"#)
    #expect(try await shown(recipient).count == 1)
    #expect(try await shown(second).isEmpty)
    let other = try await post(entry(recipient.number, "Zm9v", #","destinationDeviceId":2"#))
    #expect(other.text == #"{"success":[],"failure":["\#(recipient.number)"]}"#)
    #expect(try await shown(second).isEmpty)
  }

  @Test func `one destination's failure never hides another's success`() async throws {
    let third = try await relay.register()
    let nobody = TestDevice.freshNumber()
    let answer = try await post(
      entry(nobody), entry(recipient.number), entry("not a number"), entry(third.number, "YmFy"),
      entry("+15550000001", "Zm9v", #","relay":"elsewhere""#), entry("+15550000002", "Zm9v", #","relay":"NO NAME""#),
      entry(recipient.number, "YmFy"), entry(nobody))
    #expect(answer.status == 200)
    #expect(
      answer.text
        == #"{"success":["\#(recipient.number)","\#(third.number)"],"#
        + #""failure":["\#(nobody)","not a number","+15550000001","+15550000002"]}"#)
    #expect(try await shown(recipient).map(\.message) == ["Zm9v", "YmFy"])
    #expect(try await shown(third).map(\.message) == ["YmFy"])
  }

  @Test func `a number is told once: as failed if one of its messages is, and then none is stored`() async throws {
    let wrong = #","destinationRegistrationId":999"#
    let answer = try await post(entry(recipient.number), entry(recipient.number, "YmFy", wrong))
    #expect(answer.text == #"{"success":[],"failure":["\#(recipient.number)"]}"#)
    #expect(try await shown(recipient).isEmpty)
    // Sent again as told, each arrives once.
    #expect(try await post(entry(recipient.number), entry(recipient.number, "YmFy")).status == 200)
    #expect(try await shown(recipient).map(\.message) == ["Zm9v", "YmFy"])
  }

  @Test func `messages for one number by two ways go together or not at all`() async throws {
    for elsewhere in [#","relay":"elsewhere""#, #","relay":"NO NAME""#] {
      let (here, there) = (entry(recipient.number), entry(recipient.number, "YmFy", elsewhere))
      for entries in [[here, there], [there, here]] {
        let answer = try await relay.send("POST", "/v1/messages/", json: request(entries), as: sender)
        #expect(answer.text == #"{"success":[],"failure":["\#(recipient.number)"]}"#)
        #expect(try await shown(recipient).isEmpty)
      }
    }
  }

  @Test func `an unreachable recipient is a failure, as are copies to oneself through a relay`() async throws {
    let silent = TestDevice(number: TestDevice.freshNumber(), password: "p")
    let code = try await relay.code(for: silent.number)
    let body = #"{"signalingKey":"c2ln"}"#
    #expect(try await relay.send("PUT", "/v1/accounts/code/\(code)", json: body, as: silent).status == 200)
    let answer = try await post(entry(silent.number), entry(sender.number, "Zm9v", #","relay":"elsewhere""#))
    #expect(answer.text == #"{"success":[],"failure":["\#(silent.number)","\#(sender.number)"]}"#)
  }

  @Test func `nothing to send is no failure`() async throws {
    #expect(try await post().text == #"{"success":[],"failure":[]}"#)
  }

  @Test(arguments: [
    "{}", #"{"messages":null}"#, #"{"messages":[{"type":1,"body":"Zg"}]}"#,
    #"{"messages":[{"type":1,"destination":"+15550000001"}]}"#,
    #"{"messages":[{"type":1,"destination":"+15550000001","body":"!"}]}"#,
    #"{"messages":[{"type":5,"destination":"+15550000001","body":"Zg"}]}"#,
    #"{"messages":[{"type":9,"destination":"+15550000001","body":"Zg"}]}"#,
  ])
  func `a malformed request is refused`(json: String) async throws {
    #expect(try await relay.send("POST", "/v1/messages/", json: json, as: sender).status == 415)
  }

  @Test func `a request that is wrong anywhere sends nothing`() async throws {
    #expect(try await post(entry(recipient.number), #"{"type":1,"destination":"+15550000001"}"#).status == 415)
    #expect(try await shown(recipient).isEmpty)
  }

  @Test func `a request has at most 100 messages`() async throws {
    let many = { (count: Int) in request((1...count).map { entry(recipient.number, "Zm9v", #","x":\#($0)"#) }) }
    #expect(try await relay.send("POST", "/v1/messages/", json: many(101), as: sender).status == 413)
    #expect(try await shown(recipient).isEmpty)
    #expect(try await relay.send("POST", "/v1/messages/", json: many(100), as: sender).status == 200)
  }
}

/// The same, where little is allowed.
@Suite(.tags(.processes), .ownRelay(["RELAY_LIMITS_MESSAGES_SIZE": "2", "RELAY_LIMITS_MESSAGES_PER_MINUTE": "1"]))
struct LegacyLimitTests {
  @Test func `every message is charged to its destination; the request is refused only when nothing passes`()
    async throws
  {
    let relay = try suiteRelay().relay
    let sender = try await relay.register()
    let (first, second) = (try await relay.register(), try await relay.register())
    let post = { (entries: [String]) in
      try await relay.send("POST", "/v1/messages/", json: request(entries), as: sender)
    }
    let two = ["YQ", "Yg"].map { entry(first.number, $0) }
    #expect(try await post([two[0]]).status == 200)
    let mixed = try await post(two + [entry(second.number)])
    #expect(mixed.text == #"{"success":["\#(second.number)"],"failure":["\#(first.number)"]}"#)
    #expect(try await relay.mailbox(of: first).count == 1)
    #expect(try await post([two[1]]).status == 200)
    let refused = try await post([entry(first.number)])
    #expect(refused.status == 413 && refused.text.hasPrefix("rate-limited: "))
    #expect((1...60).contains(try #require(refused.headers["retry-after"].flatMap { Int($0) })))
    #expect(try await relay.mailbox(of: first).count == 2)
  }

  @Test func `more messages for one number than a bucket holds pass when it is full`() async throws {
    let relay = try suiteRelay().relay
    let (sender, recipient) = (try await relay.register(), try await relay.register())
    let five = ["YQ", "Yg", "Yw", "ZA", "ZQ"].map { entry(recipient.number, $0) }
    #expect(try await relay.send("POST", "/v1/messages/", json: request(five), as: sender).status == 200)
    #expect(try await relay.mailbox(of: recipient).count == 5)
    let next = try await relay.send("POST", "/v1/messages/", json: request(Array(five.prefix(1))), as: sender)
    #expect(next.status == 413 && next.headers["retry-after"] != nil, "the bucket was emptied")
  }
}

/// The same, for peers' numbers.
@Suite(.tags(.processes)) struct LegacyPeerTests {
  @Test func `messages go to peers; a peer that is away is trouble only when nothing was accepted`() async throws {
    try await PeeredOperator.withTwo { alpha, beta in
      let sender = try await alpha.relay.register()
      let here = try await alpha.relay.register()
      let there = try await beta.relay.register()
      let remote = entry(there.number, "Zm9v", #","relay":"beta""#)
      let post = { (entries: [String]) in
        try await alpha.relay.send("POST", "/v1/messages/", json: request(entries), as: sender)
      }
      let nobody = TestDevice.freshNumber()
      let both = try await post([remote, entry(here.number), entry(nobody, "Zm9v", #","relay":"beta""#)])
      #expect(both.text == #"{"success":["\#(there.number)","\#(here.number)"],"failure":["\#(nobody)"]}"#)
      let received = try await beta.relay.mailbox(of: there).map(Shown.init)
      #expect(received.map(\.relay) == ["alpha"] && received.map(\.message) == ["Zm9v"])

      // A relay of this kind knows that a client of the first generation writes to device 1 alone.
      _ = try await beta.site.linkDevice(2, registrationID: 9, to: there)
      try await beta.relay.upload([], as: there)
      #expect(try await post([remote]).text == #"{"success":["\#(there.number)"],"failure":[]}"#)

      try await beta.stop()
      #expect(try await post([remote, entry(here.number, "YmFy")]).text.contains(#""failure":["\#(there.number)"]"#))
      let away = try await post([remote])
      #expect(away.status == 503 && away.headers["retry-after"] != nil)
    }
  }
}
