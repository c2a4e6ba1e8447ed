import Foundation
import TestSupport
import TestTags
import Testing

/// Submitting messages (reference 1.8, 3.2 to 3.4).
@Suite(.tags(.processes), .ownRelay) struct MessagesTests {
  let site: RelayOperator
  let relay: RelayProcess
  let sender: TestDevice
  let recipient: TestDevice

  init() async throws {
    let suite = try suiteRelay()
    (site, relay) = (suite.site, suite.relay)
    sender = try await relay.register(registrationID: 222)
    recipient = try await relay.register(registrationID: 333)
  }

  private func send(_ json: String, to number: String? = nil, as device: TestDevice? = nil) async throws -> Answer {
    try await relay.send("PUT", "/v1/messages/\(number ?? recipient.number)", json: json, as: device ?? sender)
  }

  /// The messages that the recipient's first device holds.
  private func shown() async throws -> [Shown] { try await relay.mailbox(of: recipient).map(Shown.init) }

  @Test func `an accepted message lies in the mailbox until it is acknowledged`() async throws {
    let answer = try await send(bundle(message("Zm9vYmFyego=", registrationID: 333), timestamp: 1_447_500_000_000))
    #expect(answer.status == 200)
    #expect(answer.text == #"{"needsSync":false}"#)
    #expect(answer.headers["content-type"] == "application/json")
    let page = try await relay.send("GET", "/v1/messages", as: recipient)
    #expect(page.object["more"] as? Bool == false)
    let first = try #require(page.list("messages").first)
    #expect(Set(first.keys) == ["type", "relay", "timestamp", "source", "sourceDevice", "message", "content"])
    #expect(first["content"] is NSNull)
    let message = Shown(first)
    #expect(message.type == 1 && message.source == sender.number && message.sourceDevice == 1 && message.relay == "")
    #expect(message.timestamp == 1_447_500_000_000 && message.message == "Zm9vYmFyego=")
    #expect(try await shown() == [message])
    let path = "/v1/messages/\(sender.number)/1447500000000"
    let deleted = try await relay.send("DELETE", path, as: recipient)
    #expect(deleted.status == 200 && deleted.body.isEmpty)
    #expect(try await shown().isEmpty)
  }

  @Test func `an unknown destination is not found, and neither is what is no number`() async throws {
    for number in [TestDevice.freshNumber(), "x", "%2B123", "%FF"] {
      #expect(try await send(bundle(message()), to: number).status == 404, "\(number)")
    }
  }

  @Test(arguments: [
    ([], #"{"missingDevices":[1],"extraDevices":[]}"#),
    ([message(device: 2)], #"{"missingDevices":[1],"extraDevices":[2]}"#),
    ([message(), message(device: 2)], #"{"missingDevices":[],"extraDevices":[2]}"#),
    ([message(device: 3, registrationID: 9), message(device: 2)], #"{"missingDevices":[1],"extraDevices":[3,2]}"#),
    ([message(registrationID: 9), message(device: 2)], #"{"missingDevices":[],"extraDevices":[2]}"#),
  ])
  func `devices that do not match are named, before stale ones, and nothing is stored`(
    messages: [String], body: String
  ) async throws {
    let answer = try await send(#"{"messages":[\#(messages.joined(separator: ","))]}"#)
    #expect(answer.status == 409)
    #expect(answer.headers["content-type"] == "application/json")
    #expect(answer.text == body)
    #expect(try await shown().isEmpty)
  }

  @Test func `a device installed anew is named, and nothing is stored`() async throws {
    let answer = try await send(bundle(message(registrationID: 332)))
    #expect(answer.status == 410)
    #expect(answer.headers["content-type"] == "application/json")
    #expect(answer.text == #"{"staleDevices":[1]}"#)
    #expect(try await shown().isEmpty)
    #expect(try await send(bundle(message(registrationID: 0))).status == 200)
  }

  @Test func `a bundle is stored for every device or for none`() async throws {
    let second = try await site.linkDevice(2, registrationID: 9, to: recipient)
    try await relay.upload([], as: recipient)  // The relay looks at the account anew.
    #expect(
      try await send(bundle(message("Zm9v"))).text == #"{"missingDevices":[2],"extraDevices":[]}"#)
    #expect(try await send(bundle(message("Zm9v"), message("YmFy", device: 2, registrationID: 8))).status == 410)
    #expect(try await relay.mailbox(of: second).isEmpty)
    #expect(try await shown().isEmpty)
    #expect(try await send(bundle(message("Zm9v"), message("YmFy", device: 2, registrationID: 9))).status == 200)
    #expect(try await shown().map(\.message) == ["Zm9v"])
    #expect(try await relay.mailbox(of: second).map { Shown($0).message } == ["YmFy"])
  }

  @Test func `a sender with other devices is told to copy them`() async throws {
    _ = try await site.linkDevice(2, registrationID: 9, to: sender)
    try await relay.upload([], as: sender)
    #expect(try await send(bundle(message())).text == #"{"needsSync":true}"#)
  }

  @Test func `a copy to the own number is for the other devices`() async throws {
    // With one device there is nobody to copy: an empty bundle is right.
    #expect(try await send(#"{"messages":[]}"#, to: sender.number).text == #"{"needsSync":false}"#)
    let own = try await send(bundle(message()), to: sender.number)
    #expect(own.status == 409 && own.text == #"{"missingDevices":[],"extraDevices":[1]}"#)

    let second = try await site.linkDevice(2, registrationID: 9, to: sender)
    try await relay.upload([], as: sender)
    let copy = try await send(bundle(message(device: 2, registrationID: 9)), to: sender.number)
    #expect(copy.status == 200 && copy.text == #"{"needsSync":false}"#)
    let both = try await send(bundle(message(), message(device: 2)), to: sender.number)
    #expect(both.text == #"{"missingDevices":[],"extraDevices":[1]}"#)
    #expect(try await relay.mailbox(of: second).map { Shown($0).source } == [sender.number])
    // From the second device the first is the other one.
    #expect(try await send(bundle(message()), to: sender.number, as: second).status == 200)
    #expect(try await relay.mailbox(of: sender).map { Shown($0).sourceDevice } == [2])
  }

  @Test func `a copy to the own number cannot go through a relay`() async throws {
    let json = #"{"messages":[],"relay":"elsewhere"}"#
    #expect(try await send(json, to: sender.number).status == 400)
  }

  @Test(arguments: ["elsewhere", "NOT A NAME", "a/b", "\\u0041"])
  func `an unknown relay is not found`(name: String) async throws {
    let answer = try await send(#"{"messages":[\#(message())],"relay":"\#(name)"}"#)
    #expect(answer.status == 404)
    #expect(try await shown().isEmpty)
  }

  @Test(arguments: [#""""#, "null"]) func `an empty relay is none`(value: String) async throws {
    #expect(try await send(#"{"messages":[\#(message())],"relay":\#(value)}"#).status == 200)
    #expect(try await shown().count == 1)
  }

  /// Reference 2.7.
  @Test(arguments: [
    (#","timestamp":1447500000000"#, "", 1_447_500_000_000), (#","timestamp":"1447500000001""#, "", 1_447_500_000_001),
    ("", #","timestamp":1234"#, 1234), (#","timestamp":0"#, #","timestamp":"5678""#, 5678),
    (#","timestamp":9"#, #","timestamp":10"#, 9), (#","timestamp":9007199254740993"#, "", 9_007_199_254_740_993),
  ])
  func `the time is the bundle's, else a message's`(top: String, own: String, expected: Int64) async throws {
    let one = #"{"type":1,"destinationDeviceId":1,"body":"Zm9v"\#(own)}"#
    #expect(try await send(#"{"messages":[\#(one)]\#(top)}"#).status == 200)
    #expect(try await shown().map(\.timestamp) == [expected])
  }

  @Test func `without a time the relay's clock serves`() async throws {
    let before = Int64(Date.now.timeIntervalSince1970 * 1000)
    #expect(try await send(bundle(message())).status == 200)
    let after = Int64(Date.now.timeIntervalSince1970 * 1000)
    let time = try #require(try await shown().first?.timestamp)
    #expect((before...after).contains(time))
  }

  @Test func `integers may be strings, and unknown properties are skipped`() async throws {
    let json = #"""
      {"destination":"+1","online":{"a":[1,{"b":null}]},"messages":[{"type":"3","destinationDeviceId":"1",
      "destinationRegistrationId":"333","body":"Zm9v","content":"","silent":true,"relay":"x","destination":"y"}]}
      """#
    #expect(try await send(json).status == 200)
    let message = try #require(try await shown().first)
    #expect(message.type == 3 && message.message == "Zm9v" && message.content == nil)
  }

  /// Reference 2.2: every spelling in, the padded one out.
  @Test(arguments: [
    ("Zm9vYmFyego", "Zm9vYmFyego="), ("Zm9vYg", "Zm9vYg=="), ("Zm9vYg==", "Zm9vYg=="), (#"Zm 9v\nYg=="#, "Zm9vYg=="),
  ])
  func `bodies are read padded or not and shown padded`(sent: String, expected: String) async throws {
    let one = #"{"type":1,"body":"\#(sent)","content":"\#(sent)"}"#
    #expect(try await send(#"{"messages":[\#(one)]}"#).status == 200)
    let message = try #require(try await shown().first)
    #expect(message.message == expected && message.content == expected)
  }

  @Test func `types 0 to 4 pass, receipts and unknown ones are refused`() async throws {
    for type in 0...4 { #expect(try await send(bundle(message(type: type), timestamp: Int64(type + 1))).status == 200) }
    for type in [5, 6, -1, 65_536] { #expect(try await send(bundle(message(type: type))).status == 415) }
    #expect(try await shown().map(\.type) == [0, 1, 2, 3, 4])
  }

  @Test(arguments: [
    "{}", #"{"messages":null}"#, #"{"messages":{}}"#, #"{"messages":[7]}"#, #"{"messages":[{"type":"x"}]}"#,
    #"{"messages":[{"type":1,"body":"!"}]}"#, #"{"messages":[{"type":1,"body":"Zm9vY"}]}"#,
    #"{"messages":[{"type":1,"body":7}]}"#, #"{"messages":[{"type":1,"body":"Zg","destinationDeviceId":0}]}"#,
    #"{"messages":[{"type":1,"body":"Zg","destinationRegistrationId":{}}]}"#,
    #"{"messages":[],"timestamp":"soon"}"#, #"{"messages":[],"timestamp":9223372036854775808}"#,
  ])
  func `a malformed bundle is refused`(json: String) async throws {
    #expect(try await send(json).status == 415)
    #expect(try await shown().isEmpty)
  }

  @Test func `a body may have 64 KiB and a bundle 100 messages`() async throws {
    let fits = Data(repeating: 7, count: 64 << 10).base64EncodedString()
    let tooLarge = Data(repeating: 7, count: 64 << 10 + 1).base64EncodedString()
    #expect(try await send(bundle(message(fits))).status == 200)
    #expect(try await send(bundle(message(tooLarge))).status == 413)
    #expect(try await shown().map(\.message) == [fits])
    let many = (1...101).map { message(device: $0) }.joined(separator: ",")
    #expect(try await send(#"{"messages":[\#(many)]}"#).status == 413)
  }

  @Test func `a submission repeated with its timestamp is stored once`() async throws {
    let json = bundle(message("Zm9v"), timestamp: 1000)
    let answers = try await withThrowingTaskGroup(of: Int.self) { group in
      for _ in 0..<8 { group.addTask { try await send(json).status } }
      return try await group.reduce(into: []) { $0.append($1) }
    }
    #expect(answers == Array(repeating: 200, count: 8))
    #expect(try await shown().count == 1)
    // Another body or another time is another message.
    #expect(try await send(bundle(message("YmFy"), timestamp: 1000)).status == 200)
    #expect(try await send(bundle(message("Zm9v"), timestamp: 1001)).status == 200)
    #expect(try await shown().count == 3)
  }
}
