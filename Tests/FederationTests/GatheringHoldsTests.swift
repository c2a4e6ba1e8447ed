import RelayCore
import Storage
import Synchronization
import TestSupport
import TestTags
import Testing

@testable import Federation

/// How messages that are to be held come together, and what becomes of each.
@Suite(.tags(.unit)) struct GatheringHoldsTests {
  @Test func `messages that come during a transaction form the next one, in order`() async throws {
    let store = SlowHolds()
    let gathering = GatheringHolds { await store.hold($0) }
    try await withThrowingTaskGroup { group in
      group.addTask { try await Self.expectHeld([0], by: gathering) }
      try await eventually("the first transaction began") { store.transactions.count == 1 }
      for id in 1...3 {
        group.addTask { try await Self.expectHeld([2 * id, 2 * id + 1], by: gathering) }
      }
      try await eventually("three wait") { gathering.waitingCount == 6 }
      store.open()
      try await group.waitForAll()
    }
    #expect(store.transactions.count == 2)
    let second = try #require(store.transactions.last)
    #expect(second.sorted() == [2, 3, 4, 5, 6, 7])
    for index in stride(from: 0, to: 6, by: 2) { #expect(second[index] + 1 == second[index + 1]) }
    #expect(await gathering.hold([]).isEmpty)
  }

  @Test func `each has its own answer`() async throws {
    let store = SlowHolds(refuses: 3)
    store.open()
    let gathering = GatheringHolds { await store.hold($0) }
    let problems = await gathering.hold(try (2...5).map { try Self.message($0) })
    #expect(problems == [nil, Problem(.peerUnavailable), nil, nil])
  }

  @Test func `transactions and waiting messages are bounded`() async throws {
    let store = SlowHolds()
    var bounds = GatheringHolds.Bounds()
    (bounds.messagesMax, bounds.waitingMax) = (2, 5)
    let gathering = GatheringHolds(bounds: bounds) { await store.hold($0) }
    try await withThrowingTaskGroup { group in
      group.addTask { _ = try await gathering.hold([Self.message(0)]) }
      try await eventually("the first transaction began") { store.transactions.count == 1 }
      for id in 1...3 { group.addTask { _ = try await gathering.hold([Self.message(id)]) } }
      try await eventually("three wait") { gathering.waitingCount == 3 }
      let refused = await gathering.hold(try (4...6).map { try Self.message($0) })
      #expect(refused.map(\.?.kind) == [.peerUnavailable, .peerUnavailable, .peerUnavailable])
      store.open()
      try await group.waitForAll()
    }
    #expect(store.transactions.map(\.count) == [1, 2, 1])
    // A call that finds nothing waiting is taken, however large.
    #expect(await gathering.hold(try (0..<9).map { try Self.message($0) }).count == 9)
  }

  private static func expectHeld(_ ids: [Int], by gathering: GatheringHolds) async throws {
    let problems = await gathering.hold(try ids.map { try message($0) })
    #expect(problems == ids.map { _ in nil })
  }

  private static func message(_ id: Int) throws -> PeerSubmission {
    let submission = Submission(
      destination: try number("+14155550100"), messages: [], timestamp: Timestamp(millis: Int64(id)))
    return PeerSubmission(
      relay: try name("alpha"), source: DeviceAddress(try number("+14155550177"), .master), submission: submission)
  }
}

/// Remembers transactions as the times of their messages, and finishes none before it is opened.
private final class SlowHolds: Sendable {
  private let state = Mutex<(transactions: [[Int]], isOpen: Bool)>(([], false))
  private let refused: Int?

  init(refuses refused: Int? = nil) { self.refused = refused }

  var transactions: [[Int]] { state.withLock { $0.transactions } }
  func open() { state.withLock { $0.isOpen = true } }

  func hold(_ messages: [PeerSubmission]) async -> [Problem?] {
    let ids = messages.map { Int($0.submission.timestamp?.millis ?? -1) }
    state.withLock { $0.transactions.append(ids) }
    while !state.withLock({ $0.isOpen }) { await Task.yield() }
    return ids.map { $0 == refused ? Problem(.peerUnavailable) : nil }
  }
}

/// A relay's answers in a peer's place, each by itself, over a real store.
@Suite(.tags(.stores)) struct OutboxAcceptanceTests {
  @Test func `a message that cannot be held does not keep others out`() async throws {
    try await withOutbox(isRunning: false) { site in
      let (known, unknown) = (try number("+14155550200"), try number("+14155550201"))
      try await site.noteConfirmed(known)
      let two = try #require(DeviceID(2))
      let messages = try [
        outgoing(1, to: known), outgoing(2, to: unknown), outgoing(3, to: known, devices: [.master, two]),
        outgoing(4, to: known, registrationID: 6), outgoing(5, to: known),
      ]
      let problems = await site.outbox.hold(messages, for: try site.peer())
      #expect(problems.map(\.?.kind) == [nil, .peerUnavailable, .mismatchedDevices, .staleDevices, nil])
      #expect(try await site.held().map(\.message) == [messages[0], messages[4]])
    }
  }

  @Test func `a bound that is reached halfway refuses the rest`() async throws {
    try await withOutbox(
      isRunning: false, bounds: OutboxBounds(messagesMax: 3, bytesMax: 1 << 20, age: .seconds(3600))
    ) { site in
      let destination = try number("+14155550200")
      try await site.noteConfirmed(destination)
      let messages = try (1...5).map { try outgoing(Int64($0), to: destination) }
      let problems = await site.outbox.hold(messages, for: try site.peer())
      #expect(problems.map { $0 == nil } == [true, true, true, false, false])
      // Repeated: what is held is accepted again.
      let again = await site.outbox.hold(messages, for: try site.peer())
      #expect(again.map { $0 == nil } == [true, true, true, false, false])
      #expect(try await site.held().map(\.message) == Array(messages[..<3]))
    }
  }

  private func outgoing(
    _ time: Int64, to destination: AccountNumber, devices: [DeviceID] = [.master], registrationID: Int64 = 5
  ) throws -> PeerSubmission {
    let messages = devices.map {
      SubmittedMessage(type: .ciphertext, device: $0, registrationID: registrationID, body: [1, 2, 3], content: nil)
    }
    return PeerSubmission(
      relay: try name("alpha"), source: DeviceAddress(try number("+14155550177"), .master),
      submission: Submission(destination: destination, messages: messages, timestamp: Timestamp(millis: time)))
  }
}
