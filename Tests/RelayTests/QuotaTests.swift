import TestSupport
import TestTags
import Testing

private let smallMailboxes = RelayUnderTest.unlimited.merging([
  "RELAY_MESSAGES_MAILBOX_MAX": "10", "RELAY_MESSAGES_MAILBOX_SENDER_MAX": "6",
]) { $1 }

/// How much may wait in a mailbox (reference 3.10, Part 6 no. 13).
@Suite(.tags(.processes), .ownRelay(smallMailboxes)) struct QuotaTests {
  let site: RelayOperator
  let relay: RelayProcess
  let recipient: TestDevice

  init() async throws {
    let suite = try suiteRelay()
    (site, relay) = (suite.site, suite.relay)
    recipient = try await relay.register()
  }

  private func send(_ time: Int64, _ messages: [String] = [message()], as sender: TestDevice) async throws -> Answer {
    let json = #"{"messages":[\#(messages.joined(separator: ","))],"timestamp":\#(time)}"#
    return try await relay.send("PUT", "/v1/messages/\(recipient.number)", json: json, as: sender)
  }

  private func times() async throws -> [Int64] {
    try await relay.mailbox(of: recipient).map(Shown.init).compactMap(\.timestamp)
  }

  private func expectFull(_ answer: Answer, _ code: String = "mailbox-full") {
    #expect(answer.status == 413 && answer.text.hasPrefix("\(code): "), "\(answer.status) \(answer.text)")
    #expect(answer.headers["retry-after"] == "60")
  }

  private func fill(from first: TestDevice, and second: TestDevice) async throws {
    for time: Int64 in 1...6 { #expect(try await send(time, as: first).status == 200) }
    for time: Int64 in 7...10 { #expect(try await send(time, as: second).status == 200) }
  }

  @Test func `the newest is refused, by sender and in all, and what was accepted stays`() async throws {
    let (first, second) = (try await relay.register(), try await relay.register())
    for time: Int64 in 1...6 { #expect(try await send(time, as: first).status == 200) }
    // An old time of the sender's buys no place.
    for time: Int64 in [-5, 7] { expectFull(try await send(time, as: first), "sender-share-full") }
    for time: Int64 in 7...10 { #expect(try await send(time, as: second).status == 200) }
    expectFull(try await send(11, as: second))
    #expect(try await times() == Array(1...10))
  }

  @Test func `room that is made is used, and a refused message repeated then is stored once`() async throws {
    let (first, second) = (try await relay.register(), try await relay.register())
    try await fill(from: first, and: second)
    expectFull(try await send(11, as: second))
    #expect(try await relay.send("DELETE", "/v1/messages/\(first.number)/1", as: recipient).status == 200)
    try await eventually("there is room again") { try await send(11, as: second).status == 200 }
    #expect(try await times() == Array(2...11))
    for _ in 0..<2 { expectFull(try await send(11, as: second)) }
    #expect(try await times() == Array(2...11))
  }

  @Test func `a bundle for a full and an empty mailbox is stored nowhere, and costs the empty one nothing`()
    async throws
  {
    let (first, second) = (try await relay.register(), try await relay.register())
    try await fill(from: first, and: second)
    let linked = try await site.linkDevice(2, registrationID: 0, to: recipient)
    try await relay.upload([], as: recipient)
    for time: Int64 in 20...29 { expectFull(try await send(time, [message(device: 2), message()], as: second)) }
    #expect(try await relay.mailbox(of: linked).isEmpty)
    for time in 1...6 { try await relay.acknowledge(Int64(time), of: first, as: recipient) }
    try await eventually("there is room again") {
      try await send(30, [message(device: 2), message()], as: first).status == 200
    }
    for time: Int64 in 31...35 {
      #expect(try await send(time, [message(device: 2), message()], as: first).status == 200, "\(time)")
    }
    #expect(try await relay.mailbox(of: linked).count == 6)
  }

  @Test func `a full mailbox takes no receipts, and their senders notice nothing`() async throws {
    let (first, second) = (try await relay.register(), try await relay.register())
    try await fill(from: first, and: second)
    let path = "/v1/messages/\(first.number)"
    let json = bundle(message(), timestamp: 50)
    #expect(try await relay.send("PUT", path, json: json, as: recipient).status == 200)
    #expect(try await relay.send("DELETE", "/v1/messages/\(recipient.number)/50", as: first).status == 200)
    #expect(try await times() == Array(1...10))
    #expect(try await relay.ask("/metrics").text.contains(#"relay_receipts_dropped_total{reason="mailbox-full"}"#))
  }

  @Test func `senders at once do not go beyond the limit`() async throws {
    var senders: [TestDevice] = []
    for _ in 0..<16 { senders.append(try await relay.register()) }
    let statuses = try await withThrowingTaskGroup(of: Int.self) { group in
      for sender in senders {
        for time: Int64 in 1...4 { group.addTask { try await send(time, as: sender).status } }
      }
      return try await group.reduce(into: []) { $0.append($1) }
    }
    #expect(Set(statuses) == [200, 413])
    let accepted = statuses.count { $0 == 200 }
    #expect(accepted <= 10)
    #expect(try await times().count == accepted)
  }
}

/// Larger mailboxes, where credit is given out.
@Suite(.tags(.processes), .ownRelay(RelayUnderTest.unlimited.merging(["RELAY_MESSAGES_MAILBOX_MAX": "320"]) { $1 }))
struct QuotaCreditTests {
  @Test func `one process keeps a mailbox to its limit, whoever sends at once`() async throws {
    let relay = try suiteRelay().relay
    let recipient = try await relay.register()
    var senders: [TestDevice] = []
    for _ in 0..<8 { senders.append(try await relay.register()) }
    let accepted = try await withThrowingTaskGroup(of: Int.self) { group in
      for sender in senders {
        group.addTask {
          var accepted = 0
          for time in 1...60 {
            let json = bundle(message(), timestamp: Int64(time))
            let answer = try await relay.send("PUT", "/v1/messages/\(recipient.number)", json: json, as: sender)
            if answer.status == 200 { accepted += 1 }
          }
          return accepted
        }
      }
      return try await group.reduce(0, +)
    }
    #expect((300...320).contains(accepted), "near the limit one may be refused while another is stored")
  }
}

extension RelayProcess {
  fileprivate func acknowledge(_ timestamp: Int64, of sender: TestDevice, as device: TestDevice) async throws {
    let answer = try await send("DELETE", "/v1/messages/\(sender.number)/\(timestamp)", as: device)
    guard answer.status == 200 else { throw TestFailure("not acknowledged: \(answer.status)") }
  }
}
