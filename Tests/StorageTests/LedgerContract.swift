import Foundation
import RelayCore
import Storage
import TestTags
import Testing

@Suite(.tags(.stores)) struct LedgerContract {
  private static let hour = LedgerHour(of: Sample.noon)
  private static let hours = hour.adding(hours: -48)...hour.adding(hours: 48)

  private func crossing(_ bits: Int64, _ kind: Crossing.Kind = .message, hoursLater: Int64 = 0) -> Crossing {
    let time = Timestamp(millis: Sample.noon.millis + hoursLater * 3_600_000)
    return Crossing(CrossingMark(bits: bits), of: kind, at: time)
  }

  private func sum(_ bits: [Int64]) -> LedgerSum {
    LedgerSum(count: Int64(bits.count), digest: bits.reduce(0) { $0 &+ UInt64(bitPattern: $1) })
  }

  private func ledger(_ store: Store, of relay: String = "beta") async throws -> [LedgerEntry] {
    try await store.storage.ledger(of: Sample.relay(relay), in: Self.hours)
  }

  private func record(
    _ store: Store, _ event: LedgerRecord.Event, _ crossings: [Crossing], of relay: String = "beta"
  ) async throws {
    try await store.storage.record(LedgerRecord(event, crossings, relay: Sample.relay(relay)))
  }

  /// The sum of a kind and an event, of this hour.
  private func figures(
    _ store: Store, _ event: LedgerRecord.Event, _ kind: Crossing.Kind = .message
  ) async throws -> LedgerSum {
    let found = try await ledger(store).filter { $0.event == event && $0.kind == kind && $0.hour == Self.hour }
    #expect(found.count <= 1)
    return found.first?.sum ?? LedgerSum()
  }

  @Test(arguments: Backend.allCases)
  func `each hand-over is counted once, and the sum does not depend on the order`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let bits: [Int64] = [.min, .max, -1, 1, 0x7FFF_FFFF_FFFF_FFF0, 0x0123_4567_89AB_CDEF]
      let crossings = bits.map { self.crossing($0) }
      try await withThrowingTaskGroup(of: Void.self) { group in
        for order in [crossings, crossings.reversed() + crossings] {
          group.addTask {
            try await store.storage.record(LedgerRecord(.handedOver, order, relay: Sample.relay("beta")))
          }
        }
        try await group.waitForAll()
      }
      #expect(try await self.figures(store, .handedOver) == self.sum(bits))
      #expect(try await self.ledger(store, of: "gamma").isEmpty)
    }
  }

  @Test(arguments: Backend.allCases)
  func `each is answered or refused once; a refused one that comes again is counted again`(_ backend: Backend)
    async throws
  {
    try await backend.withStore { store in
      try await record(store, .handedOver, [crossing(1), crossing(2), crossing(3), crossing(4, .receipt)])
      for _ in 0..<2 { try await record(store, .answered, [crossing(1), crossing(4, .receipt)]) }
      for _ in 0..<2 { try await record(store, .refused, [crossing(2), crossing(1), crossing(9)]) }
      #expect(try await figures(store, .handedOver) == sum([1, 2, 3]))
      #expect(try await figures(store, .answered) == sum([1]))
      #expect(try await figures(store, .refused) == sum([2]))
      #expect(try await figures(store, .answered, .receipt) == sum([4]))
      try await record(store, .handedOver, [crossing(2), crossing(1)])
      try await record(store, .answered, [crossing(2), crossing(1)])
      #expect(try await figures(store, .handedOver) == sum([1, 2, 3, 2]))
      #expect(try await figures(store, .answered) == sum([1, 2]))
      // The store was away when it was handed over.
      try await record(store, .answered, [crossing(7), crossing(7)])
      #expect(try await figures(store, .handedOver) == sum([1, 2, 3, 2, 7]))
      #expect(try await figures(store, .answered) == sum([1, 2, 7]))
      try await record(store, .turnedDown, [crossing(1), crossing(1)])
      // PostgreSQL goes by its own clock.
      if backend == .embedded { #expect(try await figures(store, .turnedDown) == sum([1, 1])) }
      let now = Timestamp(millis: Int64(Date().timeIntervalSince1970 * 1000))
      let present = Crossing(CrossingMark(bits: 8), of: .message, at: backend == .embedded ? store.now : now)
      let absurd = Crossing(CrossingMark(bits: 8), of: .message, at: Timestamp(millis: .max))
      try await record(store, .turnedDown, [present, absurd], of: "gamma")
      let all = LedgerHour(number: .min)...LedgerHour(number: .max)
      let turnedDown = try await store.storage.ledger(of: Sample.relay("gamma"), in: all)
      #expect(turnedDown.map(\.hour) == [present.hour] && turnedDown.map(\.sum) == [sum([8])])
    }
  }

  @Test(arguments: Backend.allCases) func `hours and peers are counted apart`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await record(store, .handedOver, [crossing(1), crossing(1, hoursLater: 1), crossing(2, hoursLater: -1)])
      try await record(store, .handedOver, [crossing(3)], of: "gamma")
      #expect(try await ledger(store).map(\.hour.number) == [-1, 0, 1].map { Self.hour.number + $0 })
      #expect(try await ledger(store, of: "gamma").map(\.sum) == [sum([3])])
      let later = Self.hour.adding(hours: 1)
      #expect(try await store.storage.ledger(of: Sample.relay("beta"), in: later...later).map(\.sum) == [sum([1])])
    }
  }

  @Test(arguments: Backend.allCases)
  func `a newly stored message is accepted, a repeated one is not`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let (to, from) = (try Sample.address(1), try Sample.address(2))
      func envelope(_ id: Int, _ mark: Int64?, relay: String? = "beta", to: DeviceAddress) throws -> Envelope {
        var envelope = Sample.envelope(
          to: to, from: from, id: id, relay: try relay.map { try Sample.relay($0) }, timestamp: Sample.noon)
        envelope.mark = mark.map { CrossingMark(bits: $0) }
        return envelope
      }
      let tablet = try Sample.address(1, device: 2)
      let first = [
        try envelope(1, 10, to: to), try envelope(1, -11, to: tablet), try envelope(2, nil, to: to),
        try envelope(3, nil, relay: nil, to: to), try envelope(4, 14, relay: "gamma", to: to),
      ]
      for _ in 0..<2 { try await store.storage.append(first) }
      #expect(try await figures(store, .accepted) == sum([10, -11]))
      #expect(try await ledger(store, of: "gamma").map(\.sum) == [sum([14])])
      // Removed by its reader, it is still known.
      let page = try await store.storage.pending(in: tablet, after: 0, limit: 10)
      #expect(page.count == 1)
      _ = try await store.storage.acknowledge(source: from.account, timestamp: Sample.noon, in: tablet)
      try await store.storage.append([try envelope(1, -11, to: tablet), try envelope(5, 15, to: tablet)])
      #expect(try await figures(store, .accepted) == sum([10, -11, 15]))
      #expect(try await store.storage.pending(in: to, after: 0, limit: 10).count == 4)
    }
  }

  @Test(arguments: Backend.allCases)
  func `a held message is handed over, and answered or refused with its removal`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      #expect(try await store.storage.savePeer(Sample.peer("beta")))
      let (beta, messages) = (try Sample.relay("beta"), try (1...3).map { try Sample.outgoing($0) })
      // Two devices each; the third has no room.
      let crossings = [[crossing(1), crossing(2)], [crossing(3), crossing(4)], [crossing(5), crossing(6)]]
      let bounds = OutboxBounds(messagesMax: 2, bytesMax: 1 << 20, age: .seconds(3600))
      // One was tried before, and left without an answer.
      try await record(store, .handedOver, [crossing(3), crossing(4)])
      for _ in 0..<2 {
        let held = try await store.storage.hold(
          messages, counting: crossings, for: beta, bounds: bounds, now: store.now)
        #expect(held == [true, true, false])
      }
      #expect(try await figures(store, .handedOver) == sum([1, 2, 3, 4]))
      let waiting = try await store.outbox()
      for _ in 0..<2 {
        try await store.storage.removeHeld(
          [waiting[0].sequence], counting: LedgerRecord(.answered, crossings[0], relay: beta))
        try await store.storage.removeHeld(
          [waiting[1].sequence], counting: LedgerRecord(.refused, crossings[1], relay: beta))
      }
      #expect(try await figures(store, .answered) == sum([1, 2]))
      #expect(try await figures(store, .refused) == sum([3, 4]))
      #expect(try await store.outbox().isEmpty)
    }
  }

  @Test(arguments: Backend.withClock)
  func `counts are kept for 35 days, and hours far ahead are forgotten`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await record(store, .handedOver, (0..<1500).map { crossing($0) })
      try await record(store, .answered, (0..<1500).map { crossing($0) })
      try await record(store, .answered, [crossing(1, hoursLater: 24 * 365)])
      let far = Self.hour.adding(hours: 24 * 365)
      func maintain(afterDays days: Int64) async throws {
        store.clock.set(Timestamp(millis: Sample.noon.millis + days * Timestamp.millisPerDay))
        _ = try await store.storage.maintain(RetentionTerms(messages: .seconds(86_400)))
      }
      try await maintain(afterDays: 0)
      #expect(try await store.storage.ledger(of: Sample.relay("beta"), in: far...far).isEmpty)
      // Day by day: a clock that jumps is not believed.
      for days in 1...35 { try await maintain(afterDays: Int64(days)) }
      #expect(try await figures(store, .answered).count == 1500)
      try await maintain(afterDays: 36)
      #expect(try await ledger(store).isEmpty)
    }
  }
}
