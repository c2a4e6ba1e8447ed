import Foundation
import TestSupport
import TestTags
import Testing
import WireMessages

/// Messages to devices that are connected (reference 1.12).
@Suite(.tags(.processes), .ownRelay) struct LiveDeliveryTests {
  let site: RelayOperator
  let relay: RelayProcess
  let sender: LiveDevice
  let recipient: LiveDevice

  init() async throws {
    let suite = try suiteRelay()
    (site, relay) = (suite.site, suite.relay)
    sender = try await relay.registerLive()
    recipient = try await relay.registerLive()
  }

  private func send(_ times: some Sequence<Int64>) async throws {
    for time in times { try await relay.sendText(time, from: sender, to: recipient) }
  }

  private func waiting() async throws -> [Int64] {
    try await relay.mailbox(of: recipient.device).compactMap { Shown($0).timestamp }
  }

  @Test func `waiting messages come first, then new ones, all in order and each once`() async throws {
    try await send(1...40)
    let socket = try await relay.open(recipient)
    async let live: Void = send(41...80)
    let first = try await socket.delivery()
    #expect(first.envelope.type == 1 && first.envelope.source == sender.number && first.envelope.sourceDevice == 1)
    #expect(first.envelope.message == Array("1".utf8) && first.envelope.relay == nil)
    try await socket.answer(first.id)
    #expect(try await socket.acknowledging(79) == Array(2...80))
    try await live
    try await eventually("all is removed") { try await waiting().isEmpty }
    #expect(try await socket.waitingCount() == 0)
    await socket.raw.close()
  }

  @Test func `an acknowledgement tells the sender, who is told live, and nobody is told of that`() async throws {
    let (socket, senders) = (try await relay.open(recipient), try await relay.open(sender))
    try await send([77])
    #expect(try await socket.acknowledging(1) == [77])
    let receipt = try await senders.delivery()
    #expect(receipt.envelope.type == 5 && receipt.envelope.source == recipient.number && receipt.timestamp == 77)
    #expect(receipt.envelope.message == nil && receipt.envelope.content == nil)
    try await senders.answer(receipt.id)
    try await eventually("the receipt is removed") { try await relay.mailbox(of: sender.device).isEmpty }
    #expect(try await waiting().isEmpty)
    for socket in [socket, senders] { await socket.raw.close() }
  }

  @Test func `unacknowledged messages come again on the next connection, in order`() async throws {
    try await send(1...5)
    let first = try await relay.open(recipient)
    for time: Int64 in 1...5 {
      let delivery = try await first.delivery()
      #expect(delivery.timestamp == time)
      if time == 3 { try await first.answer(delivery.id) }
    }
    try await eventually("one is removed") { try await waiting() == [1, 2, 4, 5] }
    await first.raw.close()
    let second = try await relay.open(recipient)
    #expect(try await second.acknowledging(4) == [1, 2, 4, 5])
    await second.raw.close()
  }

  @Test func `a refused message stays, does not come again on this connection, and delays no other`()
    async throws
  {
    let first = try await relay.open(recipient)
    try await send([1, 2])
    try await first.answer(try await first.delivery().id, status: 500)
    #expect(try await first.acknowledging(1) == [2])
    try await send([3])
    #expect(try await first.acknowledging(1) == [3])
    try await eventually("the others are removed") { try await waiting() == [1] }
    #expect(try await first.waitingCount() == 0)
    await first.raw.close()
    let second = try await relay.open(recipient)
    #expect(try await second.acknowledging(1) == [1])
    await second.raw.close()
  }

  @Test func `no more is sent than may be unacknowledged, and all of it in the end`() async throws {
    try await send(1...130)
    let socket = try await relay.open(recipient)
    try await eventually("the window is full") { try await socket.waitingCount() == 100 }
    try await send([131])
    #expect(try await socket.waitingCount() == 100)
    #expect(try await socket.acknowledging(131) == Array(1...131))
    await socket.raw.close()
  }

  @Test func `a newer connection takes the place of the older`() async throws {
    let older = try await relay.open(recipient)
    let newer = try await relay.open(recipient)
    #expect(try await older.raw.closeCode() == 1000)
    try await send([1])
    #expect(try await newer.acknowledging(1) == [1])
    await newer.raw.close()
  }

  @Test func `acknowledgements of a displaced client before it knew count`() async throws {
    try await send([1])
    let older = try await relay.open(recipient)
    let delivery = try await older.delivery()
    let newer = try await relay.open(recipient)
    #expect(try await older.raw.closeCode() == 1000)
    try await older.answer(delivery.id)
    try await eventually("it is removed") { try await waiting().isEmpty }
    for socket in [older, newer] { await socket.raw.close() }
  }

  @Test func `a message that a device removes over HTTP makes room on its connection`() async throws {
    try await send(1...101)
    let socket = try await relay.open(recipient)
    try await eventually("the window is full") { try await socket.waitingCount() == 100 }
    let answer = try await relay.send("DELETE", "/v1/messages/\(sender.number)/1", as: recipient.device)
    #expect(answer.status == 200)
    try await eventually("the next one comes", within: .seconds(20)) { try await socket.waitingCount() == 101 }
    await socket.raw.close()
  }

  @Test func `two devices of an account are two connections`() async throws {
    let second = LiveDevice(
      device: try await site.linkDevice(2, registrationID: 0, to: recipient.device), key: recipient.key)
    try await relay.upload([], as: recipient.device)
    let (one, two) = (try await relay.open(recipient), try await relay.open(second))
    let json = bundle(message(), message(device: 2), timestamp: 9)
    #expect(
      try await relay.send("PUT", "/v1/messages/\(recipient.number)", json: json, as: sender.device).status == 200)
    #expect(try await one.acknowledging(1) == [9])
    #expect(try await two.acknowledging(1) == [9])
    // The own message's copy for the other device.
    let copy = bundle(message(device: 2), timestamp: 10)
    let sent = try await relay.send("PUT", "/v1/messages/\(recipient.number)", json: copy, as: recipient.device)
    #expect(sent.status == 200)
    #expect(try await two.acknowledging(1) == [10])
    for socket in [one, two] { await socket.raw.close() }
  }

  @Test func `a new registration ends former connections, and they get nothing more`() async throws {
    let before = try await relay.open(recipient)
    let after = try await relay.registerLive(recipient.number)
    #expect(try await before.raw.closeCode() == 1008)
    let socket = try await relay.open(after)
    try await relay.sendText(1, from: sender, to: after)
    #expect(try await socket.acknowledging(1) == [1])
    await socket.raw.close()
  }

  @Test func `a device that is removed is disconnected`() async throws {
    let second = LiveDevice(
      device: try await site.linkDevice(2, registrationID: 0, to: recipient.device), key: recipient.key)
    try await relay.upload([], as: recipient.device)
    let (one, two) = (try await relay.open(recipient), try await relay.open(second))
    #expect(try await relay.send("DELETE", "/v1/devices/2", as: recipient.device).status == 200)
    #expect(try await two.raw.closeCode() == 1008)
    try await send([1])
    #expect(try await one.acknowledging(1) == [1])
    await one.raw.close()
  }

  @Test func `without a signaling key messages wait, and with a new one they come`() async throws {
    let device = try await relay.register()
    let key = (0..<52).map { UInt8($0) }
    let live = LiveDevice(device: device, key: key)
    try await relay.sendText(1, from: sender, to: live)
    let socket = try await relay.open(live)
    try await socket.ask("GET", "/v1/keepalive", id: 1)
    #expect(try await socket.response().status == 200)
    #expect(try await socket.waitingCount() == 0)
    let attributes =
      #"{"signalingKey":"\#(Data(key).base64EncodedString())","registrationId":111,"fetchesMessages":true}"#
    #expect(try await relay.send("PUT", "/v1/accounts/attributes", json: attributes, as: device).status == 200)
    #expect(try await socket.acknowledging(1) == [1])
    await socket.raw.close()
  }

  @Test func `a client that reads nothing for a while costs little, and gets everything in order`() async throws {
    let socket = try await relay.open(recipient)
    try await socket.raw.setReading(false)
    let before = try relay.residentBytes()
    let large = Data(repeating: 0x41, count: 60_000).base64EncodedString()
    for time: Int64 in 1...90 {
      let json = bundle(message(large), timestamp: time)
      let sent = try await relay.send("PUT", "/v1/messages/\(recipient.number)", json: json, as: sender.device)
      #expect(sent.status == 200)
    }
    #expect(try relay.residentBytes() - before < 64 << 20)
    try await socket.raw.setReading(true)
    #expect(try await socket.acknowledging(90) == Array(1...90))
    await socket.raw.close()
  }

  @Test func `an operator sees how many are connected, and what they are sent`() async throws {
    let socket = try await relay.open(recipient)
    try await send([1])
    #expect(try await socket.acknowledging(1) == [1])
    try await eventually("the message is removed") { try await waiting().isEmpty }
    let lines = try await relay.ask("/metrics").text.split(separator: "\n").map(String.init)
    for label in [
      #"relay_connections{kind="device"}"#, "relay_deliveries_total", "relay_acknowledgements_total",
      #"relay_wakeups_total{how="local"}"#,
    ] {
      let line = try #require(lines.first { $0.hasPrefix(label + " ") }, "\(label)")
      #expect(Double(line.dropFirst(label.count + 1)) ?? 0 >= 1, "\(line)")
    }
    #expect(lines.contains { $0.hasPrefix(#"relay_connections{kind="provisioning"} "#) })
    await socket.raw.close()
  }

  @Test func `a connection that breaks in the midst of a thousand messages loses none`() async throws {
    let total = 300
    async let sending: Void = send(1...Int64(total))
    var seen: [Int64] = []
    while Set(seen).count < total {
      let socket = try await relay.open(recipient)
      let count = min(total - Set(seen).count, Int.random(in: 1...60))
      seen += try await socket.acknowledging(count)
      await socket.raw.close()
    }
    try await sending
    // A repeated message had come before. First deliveries came in order.
    var first: [Int64] = []
    for time in seen where !first.contains(time) { first.append(time) }
    #expect(first == Array(1...Int64(total)))
  }
}
