import Foundation
import NIOHTTP1
import RelayCore
import Storage
import TestSupport
import TestTags
import Testing

@testable import Federation

/// Receipts are taken for what was handed over, by whichever process (docs/federation.md, "Receipts").
@Suite(.tags(.stores)) struct HandOverLedgerTests {
  private static let key = SecretBytes([UInt8](repeating: 1, count: 32))

  private func message(at time: Int64, from sender: String, to recipient: String) throws -> HandOver {
    let message = SubmittedMessage(type: .ciphertext, device: .master, registrationID: 0, body: [1], content: nil)
    let submission = Submission(
      destination: try number(recipient), messages: [message], timestamp: Timestamp(millis: time))
    return .message(submission, source: DeviceAddress(try number(sender), .master))
  }

  private func note(_ handOvers: [HandOver], in ledger: HandOverLedger) async throws {
    let beta = try name("beta")
    let crossings = handOvers.map { ledger.crossings(of: $0, to: beta) }
    ledger.remember(crossings)
    await ledger.note(crossings, by: beta)
  }

  private func isKnown(
    _ ledger: HandOverLedger, at time: Int64, from sender: String, to recipient: String, by peer: String = "beta"
  ) async throws -> Bool {
    do throws(Problem) {
      try await ledger.demand(
        Timestamp(millis: time), from: AccountNumber.of(sender), to: AccountNumber.of(recipient), at: RelayName.of(peer)
      )
      return true
    } catch {
      #expect(error.kind == .notFound)
      return false
    }
  }

  @Test func `a receipt is for one message of one conversation with one peer`() async throws {
    let store = MemoryHandOvers()
    let ledger = HandOverLedger(store: store, key: Self.key, clock: TestRelay.systemClock)
    let (ours, theirs) = ("+14155550111", "+14155550177")
    try await note([try message(at: 5, from: ours, to: theirs)], in: ledger)
    // The second is another process's: it knows what the store knows.
    for ledger in [ledger, HandOverLedger(store: store, key: Self.key, clock: TestRelay.systemClock)] {
      #expect(try await isKnown(ledger, at: 5, from: ours, to: theirs))
      #expect(try await !isKnown(ledger, at: 6, from: ours, to: theirs))
      #expect(try await !isKnown(ledger, at: 5, from: theirs, to: ours))
      #expect(try await !isKnown(ledger, at: 5, from: ours, to: "+14155550178"))
      #expect(try await !isKnown(ledger, at: 5, from: "+14155550112", to: theirs))
      #expect(try await !isKnown(ledger, at: 5, from: ours, to: theirs, by: "gamma"))
    }
    let stranger = HandOverLedger(
      store: store, key: SecretBytes([UInt8](repeating: 2, count: 32)), clock: TestRelay.systemClock)
    #expect(try await !isKnown(stranger, at: 5, from: ours, to: theirs), "tags are made under the relay's key")
  }

  @Test func `a batch is noted in one call, without the receipts in it`() async throws {
    let store = MemoryHandOvers()
    let ledger = HandOverLedger(store: store, key: Self.key, clock: TestRelay.systemClock)
    let (ours, theirs) = (try number("+14155550111"), try number("+14155550177"))
    let receipt = HandOver.receipt(
      Timestamp(millis: 9), source: DeviceAddress(ours, .master), destination: theirs)
    let messages = try (1...3).map { try message(at: $0, from: ours.e164, to: theirs.e164) }
    try await note(messages + [receipt], in: ledger)
    try await note([receipt], in: ledger)
    #expect(store.calls.map(\.count) == [3, 0])
    #expect(store.records.map(\.crossings.count) == [4, 1])
  }

  /// A peer may cause as many as it likes, while the store is slow.
  @Test func `refusals take no place from answers`() async throws {
    let store = MemoryHandOvers()
    let ledger = HandOverLedger(store: store, key: Self.key, clock: TestRelay.systemClock)
    let (beta, gamma) = (try name("beta"), try name("gamma"))
    let handOver = try message(at: 5, from: "+14155550111", to: "+14155550177")
    store.hold(true)
    for _ in 0..<6000 { ledger.turnedDown(handOver, marks: [CrossingMark(bits: 7)], of: gamma) }
    ledger.answered(ledger.crossings(of: handOver, to: beta), by: beta)
    store.hold(false)
    try await eventually("the answer is written") { store.records.contains { $0.event == .answered } }
    await ledger.settle(until: .now + .seconds(60))
    let refusals = store.records.filter { $0.event == .turnedDown }.reduce(0) { $0 + $1.crossings.count }
    #expect((1..<1000).contains(refusals), "\(refusals)")
  }

  @Test func `a hand-over that a peer answers at once is written once`() async throws {
    let store = MemoryHandOvers()
    let ledger = HandOverLedger(store: store, key: Self.key, clock: TestRelay.systemClock)
    let crossings = try (1...3).map {
      ledger.crossings(of: try message(at: $0, from: "+14155550111", to: "+14155550177"), to: try name("beta"))
    }
    let note = HandOverNote(of: crossings, to: try name("beta"), in: ledger)
    await note.answered([200, 404, 200].map { HandOverAnswer(status: $0, retryAfterSeconds: nil) })
    #expect(store.records.map(\.event) == [.handedOver, .answered])
    #expect(store.records.map(\.crossings) == [crossings[1], crossings[0] + crossings[2]])
  }

  /// It may have been taken, and its receipts may come.
  @Test func `a hand-over without an answer is noted meanwhile`() async throws {
    let store = MemoryHandOvers()
    let ledger = HandOverLedger(store: store, key: Self.key, clock: TestRelay.systemClock)
    let crossings = [
      ledger.crossings(of: try message(at: 1, from: "+14155550111", to: "+14155550177"), to: try name("beta"))
    ]
    let late = HandOverNote(of: crossings, to: try name("beta"), in: ledger)
    try await eventually("it is noted") { store.records.map(\.event) == [.handedOver] }
    await late.answered([HandOverAnswer(status: 200, retryAfterSeconds: nil)])
    try await eventually("the answer is written behind it") { store.records.map(\.event) == [.handedOver, .answered] }
    let lost = HandOverNote(of: crossings, to: try name("beta"), in: ledger)
    await lost.answered([])
    #expect(store.records.map(\.event) == [.handedOver, .answered, .handedOver])
  }

  @Test func `a store that is away does not delay a message`() async throws {
    let store = MemoryHandOvers()
    store.isAway = true
    let ledger = HandOverLedger(store: store, key: Self.key, clock: TestRelay.systemClock)
    try await note([try message(at: 5, from: "+14155550111", to: "+14155550177")], in: ledger)
    #expect(try await isKnown(ledger, at: 5, from: "+14155550111", to: "+14155550177"), "this process remembers")
    await #expect(throws: Problem(.unavailable, retryAfter: .seconds(1))) {
      try await ledger.demand(
        Timestamp(millis: 6), from: number("+14155550111"), to: number("+14155550177"), at: name("beta"))
    }
  }

  @Test func `behind a store that does not answer, notes wait together and not one batch after the other`() async throws
  {
    let store = MemoryHandOvers()
    store.hold(true)
    let ledger = HandOverLedger(store: store, key: Self.key, clock: TestRelay.systemClock)
    let beta = try name("beta")
    // Five batches, which would wait a second each.
    let crossings = try (1...801).map {
      ledger.crossings(of: try message(at: $0, from: "+14155550111", to: "+14155550177"), to: beta)
    }
    await withTaskGroup { group in
      for one in crossings { group.addTask { await ledger.note([one], by: beta) } }
    }
    #expect(store.held < 4, "those that have waited for a second ask the store nothing")
    store.hold(false)
  }

  /// The peer's answer to a message and its receipt may come together, the receipt to another process.
  @Test func `a receipt that arrives before the note is accepted`() async throws {
    let store = MemoryHandOvers()
    let (sender, other) = (
      HandOverLedger(store: store, key: Self.key, clock: TestRelay.systemClock),
      HandOverLedger(store: store, key: Self.key, clock: TestRelay.systemClock)
    )
    let (ours, theirs, now) = ("+14155550111", "+14155550177", TestRelay.systemClock.now().millis)
    let crossings = [sender.crossings(of: try message(at: now, from: ours, to: theirs), to: try name("beta"))]
    let beta = try name("beta")
    store.whenMissed { await sender.note(crossings, by: beta) }
    #expect(try await isKnown(other, at: now, from: ours, to: theirs))
    #expect(store.missed == 1)
    #expect(try await !isKnown(other, at: now, from: theirs, to: ours))
    let missed = store.missed
    #expect(try await !isKnown(other, at: now - 120_000, from: theirs, to: ours))
    #expect(store.missed == missed + 1, "nobody hands over what is older")
  }

  @Test func `a process's memory is bounded in number and time`() throws {
    var tags = RecentTags(capacity: 4)
    let start = ContinuousClock.now
    func insert(_ bits: Int64, after seconds: Int) {
      tags.insert([HandOverTag(bits: bits)], at: start + .seconds(seconds))
    }
    func known(_ bits: [Int64], after seconds: Int) -> [Int64] {
      bits.filter { tags.contains(HandOverTag(bits: $0), at: start + .seconds(seconds)) }
    }
    for bits in 1...5 as ClosedRange<Int64> { insert(bits, after: 0) }
    #expect(known([1, 2, 3, 4, 5], after: 0) == [3, 4, 5])
    #expect(known([5], after: 3601) == [5])
    #expect(known([5], after: 7300) == [])
    insert(6, after: 7300)
    #expect(known([6], after: 40_000) == [])
  }

  @Test func `receipts are accepted only for messages that were handed over`() async throws {
    try await withPeerClient(checksReceipts: true) { relay, client in
      let path = "/v1/receipt/+14155550177/3/+14155550111"
      #expect(try await client.send(.PUT, path + "/1700000000001").status == 404)
      try await note([try message(at: 1_700_000_000_001, from: "+14155550111", to: "+14155550177")], in: relay.ledger)
      #expect(try await client.send(.PUT, path + "/1700000000001").status == 200)
      #expect(try await client.send(.PUT, path + "/1700000000002").status == 404)
      #expect(relay.intake.receipts.map(\.timestamp) == [Timestamp(millis: 1_700_000_000_001)])
    }
  }

  /// Alone, in a batch, and with no time of its client's.
  @Test func `a message that the courier hands over is known by the peer's answer`() async throws {
    try await withPeers { alpha, beta in
      let store = MemoryHandOvers()
      let ledger = HandOverLedger(store: store, key: Self.key, clock: TestRelay.systemClock)
      let requests = HandOverRequests(transport: beta.transport, ledger: ledger)
      let courier = PeerCourier(registry: beta.registry, handOvers: HandOverSender(requests, outbox: nil))
      let (ours, theirs) = (try number("+14155550177"), try number("+14155550100"))
      let message = SubmittedMessage(
        type: .ciphertext, device: .master, registrationID: 0, body: [1], content: nil)
      for time in [nil, Timestamp(millis: 5)] {
        let submission = Submission(destination: theirs, messages: [message], timestamp: time)
        try await courier.submit(submission, from: DeviceAddress(ours, .master), to: name("alpha"))
      }
      let known = try await beta.registry.peer(named: name("alpha"))
      let batch = try (10...12).map { try self.message(at: $0, from: ours.e164, to: theirs.e164) }
      _ = await requests.sendAll(batch, to: try #require(known))
      let times = alpha.intake.calls.compactMap { $0.submission.timestamp?.millis }
      #expect(times.count == 5 && Set(times).isSuperset(of: [5, 10, 11, 12]))
      for time in times { #expect(try await isKnown(ledger, at: time, from: ours.e164, to: theirs.e164, by: "alpha")) }
      #expect(Set(store.records.flatMap(\.crossings).map(\.mark.bits)).count == 5)
    }
  }
}

extension AccountNumber {
  fileprivate static func of(_ text: String) throws(Problem) -> AccountNumber {
    guard let number = AccountNumber(e164: text) else { throw Problem(.internalError) }
    return number
  }
}

extension RelayName {
  fileprivate static func of(_ text: String) throws(Problem) -> RelayName {
    guard let name = RelayName(text) else { throw Problem(.internalError) }
    return name
  }
}
