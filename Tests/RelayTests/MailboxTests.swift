import TestSupport
import TestTags
import Testing

/// Fetching and acknowledging (reference 1.9).
@Suite(.tags(.processes), .ownRelay) struct MailboxTests {
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

  private func send(_ json: String) async throws {
    let answer = try await relay.send("PUT", "/v1/messages/\(recipient.number)", json: json, as: sender)
    #expect(answer.status == 200, "\(answer.text)")
  }

  private func acknowledge(_ timestamp: Int64, as device: TestDevice) async throws -> Int {
    try await relay.send("DELETE", "/v1/messages/\(sender.number)/\(timestamp)", as: device).status
  }

  private func times(_ device: TestDevice) async throws -> [Int64] {
    try await relay.mailbox(of: device).compactMap { Shown($0).timestamp }
  }

  @Test func `messages come in the order of acceptance, whatever their times`() async throws {
    for time: Int64 in [30, 10, 20] { try await send(bundle(message(), timestamp: time)) }
    #expect(try await times(recipient) == [30, 10, 20])
  }

  @Test func `a page of large messages ends early and says that there are more`() async throws {
    let large = String(repeating: "QUJD", count: 21_000)
    for time in 1...24 { try await send(bundle(message(large), timestamp: Int64(time))) }
    var seen: [Int64] = []
    while true {
      let page = try await relay.send("GET", "/v1/messages", as: recipient)
      let times = page.list("messages").compactMap { Shown($0).timestamp }
      #expect(page.text.utf8.count < 2 << 20)
      seen += times
      for time in times { #expect(try await acknowledge(time, as: recipient) == 200) }
      if page.object["more"] as? Bool == false { break }
      #expect(!times.isEmpty)
    }
    #expect(seen == Array(1...24))
  }

  @Test func `a page holds 100 and says that there are more`() async throws {
    for time in 1...103 { try await send(bundle(message(), timestamp: Int64(time))) }
    let first = try await relay.send("GET", "/v1/messages/", as: recipient)
    #expect(first.object["more"] as? Bool == true)
    #expect(first.list("messages").compactMap { Shown($0).timestamp } == Array(1...100))
    for time in 1...100 { #expect(try await acknowledge(Int64(time), as: recipient) == 200) }
    let second = try await relay.send("GET", "/v1/messages/", as: recipient)
    #expect(second.object["more"] as? Bool == false)
    #expect(second.list("messages").compactMap { Shown($0).timestamp } == [101, 102, 103])
  }

  @Test func `an acknowledgement removes one message, of the own device only`() async throws {
    let second = try await site.linkDevice(2, registrationID: 0, to: recipient)
    try await relay.upload([], as: recipient)
    for time: Int64 in [1, 2] { try await send(bundle(message(), message(device: 2), timestamp: time)) }
    #expect(try await acknowledge(1, as: second) == 200)
    #expect(try await times(second) == [2])
    #expect(try await times(recipient) == [1, 2])
  }

  @Test func `an acknowledgement that matches nothing is accepted all the same`() async throws {
    try await send(bundle(message(), timestamp: 1))
    #expect(try await acknowledge(99, as: recipient) == 200)
    #expect(try await acknowledge(-1, as: recipient) == 200)
    let other = try await relay.send("DELETE", "/v1/messages/\(TestDevice.freshNumber())/1", as: recipient)
    #expect(other.status == 200)
    #expect(try await times(recipient) == [1])
  }

  @Test(arguments: ["x", "1.5", "99999999999999999999", "%00"])
  func `a timestamp that is no number is not found`(text: String) async throws {
    let path = "/v1/messages/\(sender.number)/\(text)"
    #expect(try await relay.send("DELETE", path, as: recipient).status == 404)
  }

  @Test func `an acknowledgement tells the sender, on each of its devices, once`() async throws {
    let linked = try await site.linkDevice(2, registrationID: 0, to: sender)
    try await relay.upload([], as: sender)
    try await send(bundle(message(type: 3), timestamp: 77))
    #expect(try await acknowledge(77, as: recipient) == 200)
    #expect(try await acknowledge(77, as: recipient) == 200)
    for device in [sender, linked] {
      let receipts = try await relay.mailbox(of: device).map(Shown.init)
      #expect(receipts.count == 1)
      let receipt = try #require(receipts.first)
      #expect(receipt.type == 5 && receipt.source == recipient.number && receipt.sourceDevice == 1)
      #expect(receipt.timestamp == 77 && receipt.message == "" && receipt.content == nil && receipt.relay == "")
    }
  }

  @Test func `a receipt is not receipted, and nobody gets one for a copy to himself`() async throws {
    try await send(bundle(message(), timestamp: 5))
    #expect(try await acknowledge(5, as: recipient) == 200)
    #expect(try await relay.send("DELETE", "/v1/messages/\(recipient.number)/5", as: sender).status == 200)
    #expect(try await times(sender).isEmpty)
    #expect(try await times(recipient).isEmpty)

    let linked = try await site.linkDevice(2, registrationID: 0, to: sender)
    try await relay.upload([], as: sender)
    let copy = bundle(message(device: 2), timestamp: 6)
    #expect(try await relay.send("PUT", "/v1/messages/\(sender.number)", json: copy, as: sender).status == 200)
    #expect(try await acknowledge(6, as: linked) == 200)
    #expect(try await times(sender).isEmpty)
  }
}
