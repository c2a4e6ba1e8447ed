import TestSupport
import TestTags
import Testing

/// Receipts that clients send themselves (reference 1.9, Part 6 no. 12).
@Suite(.tags(.processes), .ownRelay) struct ReceiptTests {
  let site: RelayOperator
  let relay: RelayProcess
  let sender: TestDevice
  let recipient: TestDevice

  init() async throws {
    let suite = try suiteRelay()
    (site, relay) = (suite.site, suite.relay)
    sender = try await relay.register()
    recipient = try await relay.register()
  }

  private func send(_ time: Int64, _ messages: String...) async throws {
    let json = #"{"messages":[\#(messages.joined(separator: ","))],"timestamp":\#(time)}"#
    let answer = try await relay.send("PUT", "/v1/messages/\(recipient.number)", json: json, as: sender)
    #expect(answer.status == 200, "\(answer.text)")
  }

  private func receipt(_ time: String, to number: String? = nil, query: String = "", as device: TestDevice? = nil)
    async throws -> Answer
  {
    try await relay.send("PUT", "/v1/receipt/\(number ?? sender.number)/\(time)\(query)", as: device ?? recipient)
  }

  private func receipts(_ device: TestDevice) async throws -> [Shown] {
    try await relay.mailbox(of: device).map(Shown.init)
  }

  @Test func `a receipt reaches every device of the sender, once`() async throws {
    let linked = try await site.linkDevice(2, registrationID: 0, to: sender)
    try await relay.upload([], as: sender)
    try await send(77, message(type: 3))
    for _ in 0..<2 {
      let answer = try await receipt("77")
      #expect(answer.status == 200 && answer.body.isEmpty)
    }
    for device in [sender, linked] {
      let shown = try await receipts(device)
      #expect(shown.count == 1)
      let receipt = try #require(shown.first)
      #expect(receipt.type == 5 && receipt.source == recipient.number && receipt.sourceDevice == 1)
      #expect(receipt.timestamp == 77 && receipt.message == "" && receipt.content == nil && receipt.relay == "")
    }
    // The message is not acknowledged by it.
    #expect(try await relay.mailbox(of: recipient).count == 1)
  }

  @Test func `a receipt may follow the acknowledgement`() async throws {
    try await send(78, message())
    #expect(try await relay.send("DELETE", "/v1/messages/\(sender.number)/78", as: recipient).status == 200)
    #expect(try await receipt("78").status == 200)
    #expect(try await receipts(sender).map(\.timestamp) == [78])
    // Its removal has told the sender, who is not told again.
    #expect(try await relay.send("DELETE", "/v1/messages/\(recipient.number)/78", as: sender).status == 200)
    #expect(try await receipt("78").status == 200)
    #expect(try await receipts(sender).isEmpty)
  }

  @Test func `an acknowledgement tells every device of the sender, once`() async throws {
    let linked = try await site.linkDevice(2, registrationID: 0, to: sender)
    try await relay.upload([], as: sender)
    try await send(92, message())
    for _ in 0..<2 {
      #expect(try await relay.send("DELETE", "/v1/messages/\(sender.number)/92", as: recipient).status == 200)
    }
    for device in [sender, linked] {
      let shown = try await receipts(device)
      #expect(shown.count == 1)
      let receipt = try #require(shown.first)
      #expect(receipt.type == 5 && receipt.source == recipient.number && receipt.sourceDevice == 1)
      #expect(receipt.timestamp == 92 && receipt.message == "" && receipt.content == nil && receipt.relay == "")
    }
    #expect(try await relay.mailbox(of: recipient).isEmpty)
  }

  @Test func `acknowledgements of one time remove a message each`() async throws {
    try await send(93, message("YQ=="))
    try await send(93, message("Yg=="))
    #expect(try await relay.mailbox(of: recipient).count == 2)
    try await withThrowingTaskGroup(of: Int.self) { group in
      for _ in 0..<2 {
        group.addTask { try await relay.send("DELETE", "/v1/messages/\(sender.number)/93", as: recipient).status }
      }
      for try await status in group { #expect(status == 200) }
    }
    #expect(try await relay.mailbox(of: recipient).isEmpty)
    #expect(try await receipts(sender).map(\.timestamp) == [93])
  }

  @Test func `only what a device has received can be receipted, and the refusal tells nothing`() async throws {
    try await send(79, message())
    let stranger = try await relay.register()
    let refusals = [
      try await receipt("80"), try await receipt("79", as: stranger),
      try await receipt("79", to: TestDevice.freshNumber()), try await receipt("79", to: stranger.number),
      try await receipt("79", query: "?relay=elsewhere"),
    ]
    for refusal in refusals {
      #expect(refusal.status == 404)
      #expect(refusal.body == refusals[0].body)
    }
    #expect(try await receipts(sender).isEmpty)
    // A receipt is nothing to be receipted.
    #expect(try await receipt("79").status == 200)
    #expect(try await receipt("79", to: recipient.number, as: sender).status == 404)
  }

  @Test func `another device of the account has received its own messages only`() async throws {
    try await send(90, message())
    let linked = try await site.linkDevice(2, registrationID: 0, to: recipient)
    try await relay.upload([], as: recipient)
    #expect(try await receipt("90", as: linked).status == 404)
    try await send(91, message(), message(device: 2))
    #expect(try await receipt("91", as: linked).status == 200)
    #expect(try await receipts(sender).map(\.sourceDevice) == [2])
  }

  @Test func `nobody is told of his own messages`() async throws {
    #expect(try await receipt("5", to: recipient.number).status == 200)
    #expect(try await relay.mailbox(of: recipient).isEmpty)
  }

  @Test func `a body is ignored, an empty relay is none`() async throws {
    try await send(81, message())
    let path = "/v1/receipt/\(sender.number)/81/?relay="
    for json in ["", "not json"] {
      #expect(try await relay.send("PUT", path, json: json, as: recipient).status == 200)
    }
    let plain = try await relay.send("PUT", path, json: "x", as: recipient, headers: [("Content-Type", "text/plain")])
    #expect(plain.status == 200)
  }

  @Test(arguments: ["x", "1.5", "99999999999999999999", "%00"])
  func `a timestamp that is no number is not found`(text: String) async throws {
    #expect(try await receipt(text).status == 404)
  }

  @Test func `a malformed number is not found`() async throws {
    for number in ["x", "+123", "%FF"] { #expect(try await receipt("1", to: number).status == 404, "\(number)") }
  }
}

@Suite(.tags(.processes), .ownRelay(["RELAY_LIMITS_RECEIPTS_SIZE": "2", "RELAY_LIMITS_RECEIPTS_PER_MINUTE": "1"]))
struct ReceiptLimitTests {
  @Test func `receipts are limited by their sender`() async throws {
    let relay = try suiteRelay().relay
    let (caller, other) = (try await relay.register(), try await relay.register())
    let path = "/v1/receipt/\(other.number)/1"
    for _ in 0..<2 { #expect(try await relay.send("PUT", path, as: caller).status == 404) }
    let refused = try await relay.send("PUT", path, as: caller)
    #expect(refused.status == 413 && refused.headers["retry-after"] != nil)
    #expect(try await relay.send("PUT", path, as: other).status == 200)
  }
}

/// Receipts between relays (reference 1.13.6).
@Suite(.tags(.processes)) struct PeerReceiptTests {
  @Test func `a message from a peer is receipted to it, by acknowledgement and by word`() async throws {
    try await PeeredOperator.withTwo { alpha, beta in
      let sender = try await alpha.relay.register()
      let recipient = try await beta.relay.register()
      for time in [1, 2] {
        let json = #"{"messages":[\#(message())],"relay":"beta","timestamp":\#(time)}"#
        let path = "/v1/messages/\(recipient.number)"
        #expect(try await alpha.relay.send("PUT", path, json: json, as: sender).status == 200)
      }
      let acknowledged = try await beta.relay.send("DELETE", "/v1/messages/\(sender.number)/1", as: recipient)
      #expect(acknowledged.status == 200)
      let path = "/v1/receipt/\(sender.number)/2"
      #expect(try await beta.relay.send("PUT", path + "?relay=alpha", as: recipient).status == 200)
      try await eventually("both receipts have come") { try await alpha.relay.mailbox(of: sender).count == 2 }
      let receipts = try await alpha.relay.mailbox(of: sender).map(Shown.init)
      #expect(receipts.compactMap(\.timestamp).sorted() == [1, 2])
      #expect(receipts.allSatisfy { $0.type == 5 && $0.relay == "beta" && $0.source == recipient.number })

      // A peer that is away costs the acknowledgement nothing.
      let json = #"{"messages":[\#(message())],"relay":"beta","timestamp":3}"#
      #expect(
        try await alpha.relay.send("PUT", "/v1/messages/\(recipient.number)", json: json, as: sender).status == 200)
      try await alpha.stop()
      #expect(
        try await beta.relay.send("PUT", "/v1/receipt/\(sender.number)/3?relay=alpha", as: recipient).status == 503)
      let last = try await beta.relay.send("DELETE", "/v1/messages/\(sender.number)/3", as: recipient)
      #expect(last.status == 200)
      #expect(try await beta.relay.mailbox(of: recipient).map(Shown.init).compactMap(\.timestamp) == [2])
    }
  }
}
