import Foundation
import RelayClient
import Synchronization
import TestSupport
import Testing

/// Devices that are connected and write to each other, and the account of it.
struct LiveFleet: Sendable {
  let devices: [LiveDevice]
  let ledger: DeliveryLedger
  private let clock = MessageClock()
  private let retries = Count()
  private let socketSends = Count()

  /// Registers `count` devices at `relay`, with each of `habits` in turn.
  init(
    _ count: Int, registeredAt relay: RelayProcess, habits: [LiveDevice.Habit] = [.acknowledgesAtOnce],
    options: RelayClient.LiveOptions = .init()
  ) async throws {
    let client = try RelayClient.entrance(relay.url)
    let ledger = DeliveryLedger()
    self.ledger = ledger
    devices = try await withThrowingTaskGroup(of: [LiveDevice].self) { group in
      let lanes = min(8, count)
      for lane in 0..<lanes {
        group.addTask {
          var made: [LiveDevice] = []
          for index in stride(from: lane, to: count, by: lanes) {
            let habit = habits[index % habits.count]
            made.append(try await LiveDevice(registeredAt: client, ledger: ledger, habit: habit, options: options))
          }
          return made
        }
      }
      return try await group.reduce(into: []) { $0 += $1 }
    }
  }

  /// Runs `body` while all devices stay connected by one of `entrances` or another.
  func connected<Value: Sendable>(
    by entrances: [RelayClient], _ random: SeededGenerator, _ body: @Sendable () async throws -> Value
  ) async throws -> Value {
    var random = random
    let generators = devices.map { _ in random.split() }
    return try await withThrowingTaskGroup(of: Void.self) { group in
      for (device, generator) in zip(devices, generators) {
        group.addTask { await device.stayConnected(by: entrances, generator) }
      }
      defer { group.cancelAll() }
      try await eventually("all devices are connected", within: .seconds(120)) { devices.allSatisfy(\.isConnected) }
      return try await body()
    }
  }

  /// A sender's reaction to an answer that is not 200.
  enum Persistence: Sendable {
    /// Sends again, as the same message, until it is accepted: what a client does about 503 and lost connections.
    case untilAccepted
    /// Once over HTTP, and writes a failure down. Over a connection that ends meanwhile the answer may be missing: then
    /// the message goes over HTTP.
    case once(Ledger<String>)
  }

  /// Sends messages on `lanes` lanes at once, each from a random device to a random other one, one after the other;
  /// every third over the sender's own connection.
  /// - Parameter pause: of each lane between two messages.
  func send(
    _ count: Int, lanes: Int, pause: Duration = .zero, by entrances: [RelayClient], _ persistence: Persistence,
    _ random: SeededGenerator, while isWanted: @escaping @Sendable () -> Bool = { true }
  ) async throws {
    var random = random
    try await withThrowingTaskGroup(of: Void.self) { group in
      for lane in 0..<lanes {
        var draws = random.split()
        group.addTask {
          for _ in stride(from: lane, to: count, by: lanes) {
            guard isWanted() else { return }
            try await sendOne(by: entrances, persistence, &draws)
            if pause > .zero { try await Task.sleep(for: pause) }
          }
        }
      }
      try await group.waitForAll()
    }
  }

  private func sendOne(
    by entrances: [RelayClient], _ persistence: Persistence, _ random: inout SeededGenerator
  ) async throws {
    let from = Int.random(in: devices.indices, using: &random)
    // Another one: nobody writes to their own only device.
    let to = (from + Int.random(in: 1..<devices.count, using: &random)) % devices.count
    try await send(from: devices[from], to: devices[to], by: entrances, persistence, mayUseSocket: true, &random)
  }

  /// Sends one message. - Returns: when it was accepted.
  @discardableResult
  func send(from sender: LiveDevice, to recipient: LiveDevice, by entrance: RelayClient) async throws
    -> ContinuousClock.Instant
  {
    var random = SeededGenerator(seed: .random(in: .min ... .max))
    try await send(from: sender, to: recipient, by: [entrance], .untilAccepted, mayUseSocket: false, &random)
    return .now
  }

  private func send(
    from sender: LiveDevice, to recipient: LiveDevice, by entrances: [RelayClient], _ persistence: Persistence,
    mayUseSocket: Bool, _ random: inout SeededGenerator
  ) async throws {
    let time = clock.next()
    let id = MessageID(sender.number.e164, time)
    let body = Array("message \(id) \(UInt64.random(in: .min ... .max, using: &random))".utf8)
    ledger.submitting(id, to: recipient.number.e164, body: body)
    var entrance = Int.random(in: entrances.indices, using: &random)
    var overSocket = mayUseSocket && Int.random(in: 0..<3, using: &random) == 0 ? sender.client : nil
    try await eventually("message \(id) is accepted", within: .seconds(300), every: .milliseconds(100)) {
      let socket = overSocket
      overSocket = nil
      let client = socket ?? entrances[entrance % entrances.count].with(sender.credentials)
      entrance += 1
      do {
        try await client.send([OutgoingMessage(body: body, type: 1)], to: recipient.number, timestamp: time)
        ledger.accepted(id)
        if socket != nil { socketSends.add() }
        return true
      } catch let error as RelayClientError {
        if socket != nil, Self.isConnectionOver(error) {
          retries.add()
          return false
        }
        return try settle(error, persistence)
      }
    }
  }

  /// The sender's connection has ended, or is just being ended.
  private static func isConnectionOver(_ error: RelayClientError) -> Bool {
    switch error {
    case .unreachable, .refused(503, _, _): true
    default: false
    }
  }

  /// - Returns: whether the sender is done with the message.
  private func settle(_ error: RelayClientError, _ persistence: Persistence) throws -> Bool {
    switch persistence {
    case .once(let failures):
      failures.add("\(error)")
      return true
    case .untilAccepted:
      guard Self.isAway(error) else { throw TestFailure("a sender was answered: \(error)") }
      retries.add()
      return false
    }
  }

  /// The relay, or what it stands on, does not answer just now.
  private static func isAway(_ error: RelayClientError) -> Bool {
    switch error {
    case .unreachable, .timedOut, .refused(503, _, _): true
    default: false
    }
  }

  /// Waits until everything that was accepted has been delivered. - Returns: how long that took.
  func untilDelivered(within limit: Duration = .seconds(60)) async throws -> Duration {
    let begun = ContinuousClock.now
    try await eventually("everything accepted is delivered", within: limit) { ledger.owedCount == 0 }
    return .now - begun
  }

  /// Waits until everything that was accepted has been delivered and all mailboxes are empty, and closes the books;
  /// says what is known of what is missing. Call it while the devices are connected: receipts still come.
  /// - Parameter entrance: where mailboxes can be looked into.
  func settle(within limit: Duration, at entrance: RelayClient) async throws -> DeliveryAudit {
    do {
      try await eventually("everything accepted is delivered", within: limit, every: .milliseconds(100)) {
        ledger.owedCount == 0
      }
      // Repeated deliveries come until then.
      try await expectEmptyMailboxes(at: entrance)
    } catch let error as WaitExpired {
      Issue.record(error, "the books say what is missing")
    }
    let audit = ledger.audit()
    if !audit.lost.isEmpty { print(try await whereabouts(of: audit.lost, at: entrance)) }
    return audit
  }

  /// Facts about the first of `lost`: whether they wait in the mailbox, and the fate of the device's connections. For
  /// people.
  func whereabouts(of lost: [MessageID], at entrance: RelayClient) async throws -> String {
    var lines: [String] = []
    for id in lost.prefix(3) {
      guard let device = devices.first(where: { $0.number.e164 == ledger.recipient(of: id) }) else { continue }
      let waiting = try await entrance.with(device.credentials).fetchMessages().messages
      let isThere = waiting.contains { $0.source.number.e164 == id.source && $0.timestamp == id.timestamp }
      lines.append(
        "  \(id) for \(device.number): \(isThere ? "waits in" : "is not in") the mailbox of \(waiting.count)")
      lines += ledger.story(of: id).map { "    \($0)" } + device.journal.suffix(20).map { "    \($0)" }
    }
    return lines.joined(separator: "\n")
  }

  /// Waits until all mailboxes are empty: acknowledged messages are gone. The process that died last may still be
  /// away.
  func expectEmptyMailboxes(at entrance: RelayClient, within limit: Duration = .seconds(120)) async throws {
    for device in devices {
      try await eventually("the mailbox of \(device.number) is empty", within: limit, every: .milliseconds(200)) {
        do {
          return try await entrance.with(device.credentials).fetchMessages().messages.isEmpty
        } catch let error as RelayClientError where Self.isAway(error) {
          return false
        }
      }
    }
  }

  /// How many messages were accepted over senders' connections.
  var sentOverSockets: Int { socketSends.value }
  var closeCodes: Set<Int> { Set(devices.flatMap(\.closes).map(\.code)) }
  /// Ends with 1000 that no newer connection of the device explains.
  var unexplained: [String] { devices.flatMap(\.unexplained) }
  var faults: [String] { devices.flatMap(\.faults) }
  var refusals: Int { devices.reduce(0) { $0 + $1.refusals } }
  /// Refused, and not delivered again so far.
  var refused: [MessageID] { devices.flatMap(\.refused) }

  /// The fate of connections and senders, for people.
  var summary: String {
    var ends: [String: Int] = [:]
    for device in devices { ends.merge(device.ends) { $0 + $1 } }
    let common = ends.sorted { ($1.value, $0.key) < ($0.value, $1.key) }.prefix(8).map { "\($0.value) × \($0.key)" }
    return """
        connections \(devices.reduce(0) { $0 + $1.connections }), receipts \(devices.reduce(0) { $0 + $1.receipts }), \
      submissions repeated \(retries.value), \
      over sockets \(sentOverSockets), refused by devices \(refusals), \
      displaced \(devices.flatMap(\.closes).count { $0.code == 1000 })
        longest time without a connection \(DeliveryAudit.text(devices.map(\.longestWithout).max() ?? .zero))
        connections ended, and attempts failed: \(common.joined(separator: "; "))
      """
  }
}

/// Times of messages: different ones, and what clients de-duplicate by.
private final class MessageClock: Sendable {
  private let time = Atomic<Int64>(1_700_000_000_000)
  func next() -> Int64 { time.add(1, ordering: .relaxed).newValue }
}

private final class Count: Sendable {
  private let count = Atomic(0)
  func add() { count.add(1, ordering: .relaxed) }
  var value: Int { count.load(ordering: .relaxed) }
}
