import RelayCore
import Storage
import TestTags
import Testing

@Suite(.tags(.stores)) struct HandOverContract {
  private static let hour = LedgerHour(of: Sample.noon)

  private func tags(_ range: ClosedRange<Int64>) -> [HandOverTag] {
    range.map { HandOverTag(bits: $0 * 0x1234_5678_9ABC) }
  }

  private func record(_ event: LedgerRecord.Event, _ tags: [HandOverTag], in store: Store) async throws {
    try await store.storage.record(
      LedgerRecord(event, tags.map { Sample.crossing($0) }, relay: Sample.relay("beta")))
  }

  private func isKnown(_ tag: HandOverTag, _ store: Store, in hour: LedgerHour = hour) async throws -> Bool {
    try await store.storage.wasHandedOver(tag, in: hour)
  }

  @Test(arguments: Backend.allCases)
  func `a hand-over is known in its hour, and nothing else is`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let tags = self.tags(1...300) + [HandOverTag(bits: .min), HandOverTag(bits: .max)]
      // A message that is handed over again is noted once, also twice in one call and by two at once.
      try await withThrowingTaskGroup(of: Void.self) { group in
        for order in [tags, tags.reversed() + tags] {
          group.addTask { try await self.record(.handedOver, order, in: store) }
        }
        try await group.waitForAll()
      }
      let receipt = Crossing(CrossingMark(bits: 3), of: .receipt, at: Sample.noon)
      try await store.storage.record(LedgerRecord(.handedOver, [receipt], relay: Sample.relay("beta")))
      for tag in [tags[0], tags[299], tags[300], tags[301]] { #expect(try await isKnown(tag, store)) }
      for bits in [0, 1, -1] as [Int64] { #expect(try await !isKnown(HandOverTag(bits: bits), store)) }
      #expect(try await !isKnown(tags[0], store, in: Self.hour.adding(hours: 1)))
      _ = try await store.storage.maintain(RetentionTerms(messages: .seconds(86_400)))
      #expect(try await isKnown(tags[0], store))
    }
  }

  @Test(arguments: Backend.allCases)
  func `an answered hand-over is known, and a refused one is not`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let tags = tags(1...4)
      try await record(.handedOver, Array(tags[0...2]), in: store)
      try await record(.answered, [tags[0], tags[3]], in: store)
      try await record(.refused, [tags[0], tags[1]], in: store)
      #expect(try await isKnown(tags[0], store), "it was answered before")
      #expect(try await !isKnown(tags[1], store))
      #expect(try await isKnown(tags[2], store), "it may have an answer yet")
      #expect(try await isKnown(tags[3], store), "the store was away when it was handed over")
    }
  }

  @Test(arguments: Backend.withClock)
  func `it is known for 30 days, and then removed`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let (storage, day) = (store.storage, Duration.seconds(86_400))
      let tags = self.tags(1...2500)
      try await record(.handedOver, tags, in: store)
      for _ in 0..<WireLimits.receiptDays { store.clock.advance(day) }
      _ = try await storage.maintain(RetentionTerms(messages: day))
      #expect(try await isKnown(tags[0], store))
      store.clock.advance(day)
      #expect(try await !isKnown(tags[0], store), "whether it was removed or not")
      // Day by day: a clock that jumps is not believed.
      for _ in 0..<3 {
        _ = try await storage.maintain(RetentionTerms(messages: day))
        store.clock.advance(day)
      }
      _ = try await storage.maintain(RetentionTerms(messages: day))
      try await record(.handedOver, Array(tags.prefix(1)), in: store)
      _ = try await storage.maintain(RetentionTerms(messages: day))
      #expect(try await isKnown(tags[0], store), "handed over again, it counts from then")
      // A crossing that is still there is not counted again.
      let counted = try await storage.ledger(of: Sample.relay("beta"), in: Self.hour...Self.hour)
      #expect(counted.map(\.sum.count) == [2501])
    }
  }
}

extension Sample {
  /// A message's, of noon.
  static func crossing(_ tag: HandOverTag) -> Crossing {
    Crossing(CrossingMark(bits: ~tag.bits), tag: tag, of: .message, at: noon)
  }
}
