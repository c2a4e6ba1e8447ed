import TestSupport
import Testing

/// Many senders who do not give up, and the account of what they were answered.
struct Storm: Sendable {
  private struct Sender: Sendable {
    let device: TestDevice
    let recipient: TestDevice
  }

  private let senders: [Sender]
  private let relays: [RelayProcess]
  /// The messages that were answered with success: number of the sender, time of the message.
  private let accepted = Ledger<String>()

  /// Eight mailboxes, written to in turn.
  init(senders count: Int, at relays: [RelayProcess]) async throws {
    self.relays = relays
    var recipients: [TestDevice] = []
    for _ in 0..<8 { recipients.append(try await relays[0].register()) }
    var senders: [Sender] = []
    for index in 0..<count {
      senders.append(Sender(device: try await relays[0].register(), recipient: recipients[index % 8]))
    }
    self.senders = senders
  }

  /// Each sender sends `messages`, one after the other; `blow` happens when a quarter of them is accepted. A failed
  /// message is repeated with the same time, at the other process if there is one.
  /// - Returns: the result of `blow`.
  func run<Result: Sendable>(messages count: Int, blow: @escaping @Sendable () async throws -> Result) async throws
    -> Result
  {
    async let aftermath = {
      try await eventually("a quarter is accepted", within: .seconds(60)) { accepted.count > senders.count * count / 4 }
      #expect(accepted.count < senders.count * count, "the blow comes in the middle")
      return try await blow()
    }()
    try await withThrowingTaskGroup(of: Void.self) { group in
      for (lane, sender) in senders.enumerated() {
        group.addTask {
          for number in 1...count { try await send(Int64(lane * 1000 + number), by: sender, lane: lane) }
        }
      }
      try await group.waitForAll()
    }
    #expect(accepted.count == senders.count * count)
    return try await aftermath
  }

  private func send(_ time: Int64, by sender: Sender, lane: Int) async throws {
    let json = bundle(message("Zm9vYmFy"), timestamp: time)
    var turn = lane
    try await eventually("message \(time) is accepted", within: .seconds(60), every: .milliseconds(20)) {
      let relay = relays[turn % relays.count]
      turn += 1
      // A relay that died under the request answers nothing: the sender knows no more than that.
      let path = "/v1/messages/\(sender.recipient.number)"
      guard let answer = try? await relay.send("PUT", path, json: json, as: sender.device) else { return false }
      #expect(answer.status == 200 || answer.status == 503, "\(answer.status) \(answer.text)")
      return answer.status == 200
    }
    accepted.add("\(sender.device.number)/\(time)")
  }

  /// Fetches and acknowledges everything at `relay`: each accepted message must come exactly once.
  func check(at relay: RelayProcess) async throws {
    var fetched: [String] = []
    var recipients: [String: TestDevice] = [:]
    for sender in senders { recipients[sender.recipient.number] = sender.recipient }
    for recipient in recipients.values {
      while true {
        let page = try await relay.mailbox(of: recipient)
        if page.isEmpty { break }
        for message in page {
          let source = try #require(message["source"] as? String)
          let time = try #require(message["timestamp"] as? Int)
          fetched.append("\(source)/\(time)")
          #expect(try await relay.send("DELETE", "/v1/messages/\(source)/\(time)", as: recipient).status == 200)
        }
      }
    }
    #expect(Set(fetched).count == fetched.count, "nothing comes twice")
    #expect(fetched.sorted() == accepted.all.sorted(), "nothing is lost, nothing is invented")
  }
}
