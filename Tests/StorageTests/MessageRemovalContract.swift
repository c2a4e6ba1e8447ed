import RelayCore
import Storage
import TestTags
import Testing

/// What is left of an acknowledged message: the receipt for its sender, and its memory.
@Suite(.tags(.stores)) struct MessageRemovalContract {
  /// A receipt for devices 1 and 2 of the sender.
  private static func receipt(_ id: Int, to devices: [Int64] = [1, 2]) throws -> DueReceipt {
    try DueReceipt(to: devices.map(Sample.device), fingerprint: Fingerprint(high: 7, low: UInt64(id)))
  }

  /// As `receipt` is stored for `message`.
  private static func envelope(_ receipt: DueReceipt, of message: Envelope, to device: Int64) throws -> Envelope {
    Envelope(
      destination: DeviceAddress(message.source.account, try Sample.device(device)), type: .receipt,
      source: message.destination, relay: nil, timestamp: message.timestamp, message: nil, content: nil,
      fingerprint: receipt.fingerprint)
  }

  private static func places(_ mailbox: DeviceAddress, in store: Store) async throws -> [MailboxPlace] {
    try await store.mailbox(mailbox).map { MailboxPlace(mailbox, sequence: $0.sequence) }
  }

  private static func envelopes(_ mailbox: DeviceAddress, in store: Store) async throws -> [Envelope] {
    try await store.mailbox(mailbox).map(\.envelope)
  }

  @Test(arguments: Backend.allCases)
  func `a receipt is stored with the removal of its message, on each device that is named`(_ backend: Backend)
    async throws
  {
    try await backend.withStore { store in
      let (mailbox, sender) = try (Sample.address(1, device: 3), Sample.address(2, device: 2))
      let sent = (0..<4).map { Sample.envelope(to: mailbox, from: sender, id: $0) }
      try await store.storage.append(sent)
      let places = try await Self.places(mailbox, in: store)
      let receipts = try [Self.receipt(0), nil, Self.receipt(2, to: [2]), Self.receipt(3)]
      let removals = zip(places, receipts).map { MailboxRemoval($0, receipt: $1) }
      #expect(try await store.storage.remove(Array(removals[..<3])) == Set(places[..<3]))

      let (first, third) = try (Self.receipt(0), Self.receipt(2))
      #expect(
        try await Self.envelopes(Sample.address(2), in: store) == [Self.envelope(first, of: sent[0], to: 1)])
      #expect(
        try await Self.envelopes(sender, in: store) == [
          Self.envelope(first, of: sent[0], to: 2), Self.envelope(third, of: sent[2], to: 2),
        ])
      #expect(try await Self.envelopes(Sample.address(2, device: 3), in: store).isEmpty)
      #expect(try await Self.envelopes(mailbox, in: store) == [sent[3]])
      // Readers see them as they see others, and they count as the recipient's.
      #expect(try await store.waiting(sender, held: [], limit: 10) == store.mailbox(sender))
      #expect(
        try await store.storage.usage(of: sender, by: mailbox.account, from: nil, countingTo: 10)
          == MailboxUsage(total: 2, bySource: 2))
    }
  }

  @Test(arguments: Backend.allCases)
  func `a receipt is stored once, however often its message is acknowledged`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let (mailbox, sender) = try (Sample.address(1), Sample.address(2))
      let time = Timestamp(millis: 1234)
      // Two messages of one time have one receipt.
      let sent = (0..<2).map { Sample.envelope(to: mailbox, from: sender, id: $0, timestamp: time) }
      try await store.storage.append(sent)
      let places = try await Self.places(mailbox, in: store)
      let (receipt, other) = try (Self.receipt(1, to: [1]), Self.receipt(2, to: [1]))
      let first = MailboxRemoval(places[0], receipt: receipt)
      // Named twice is named once: with its first receipt.
      let twice = [first, MailboxRemoval(places[0], receipt: other)]
      #expect(try await store.storage.remove(twice) == [places[0]])
      for _ in 0..<2 { #expect(try await store.storage.remove([first]).isEmpty) }
      #expect(try await store.storage.remove([MailboxRemoval(places[1], receipt: receipt)]) == [places[1]])
      let stored = try Self.envelope(receipt, of: sent[0], to: 1)
      #expect(try await Self.envelopes(sender, in: store) == [stored])
      // Nor does a client's own word add one.
      try await store.storage.append([stored])
      #expect(try await Self.envelopes(sender, in: store) == [stored])
      // The same message again is none: it is remembered.
      try await store.storage.append(sent)
      #expect(try await Self.envelopes(mailbox, in: store).isEmpty)
    }
  }

  @Test(arguments: Backend.allCases)
  func `nobody is told of what was not there`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let (mailbox, sender) = try (Sample.address(1), Sample.address(2))
      try await store.storage.append([Sample.envelope(to: mailbox, from: sender, id: 1)])
      let place = try #require(try await Self.places(mailbox, in: store).first)
      let strange = [
        MailboxPlace(sender, sequence: place.sequence), MailboxPlace(mailbox, sequence: place.sequence + 1),
      ]
      let removals = try strange.map { MailboxRemoval($0, receipt: try Self.receipt(1)) }
      #expect(try await store.storage.remove(removals).isEmpty)
      for device: Int64 in 1...2 {
        #expect(try await Self.envelopes(Sample.address(2, device: device), in: store).isEmpty)
      }
      #expect(try await Self.places(mailbox, in: store) == [place])
    }
  }

  @Test(arguments: Backend.allCases)
  func `receipts come behind what was accepted before, in the order of their messages`(_ backend: Backend) async throws
  {
    try await backend.withStore { store in
      let (mailbox, sender) = try (Sample.address(1), Sample.address(2))
      let answer = Sample.envelope(to: sender, from: mailbox, id: 100)
      try await store.storage.append((0..<20).map { Sample.envelope(to: mailbox, from: sender, id: $0) } + [answer])
      let removals = try await Self.places(mailbox, in: store).enumerated().map {
        MailboxRemoval($1, receipt: try Self.receipt(20 - $0, to: [1]))
      }
      #expect(try await store.storage.remove(removals).count == 20)
      let later = Sample.envelope(to: sender, from: mailbox, id: 101)
      try await store.storage.append([later])
      let found = try await Self.envelopes(sender, in: store)
      #expect(found.first == answer && found.last == later)
      let times = found.filter { $0.type == .receipt }.map(\.timestamp)
      #expect(times.count == 20 && times == times.sorted())
    }
  }

  @Test(arguments: Backend.allCases)
  func `many messages are removed at once, each with its receipts`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let (sender, mailboxes) = try (Sample.address(999), (1...30).map { try Sample.address($0) })
      try await store.fill(mailboxes.map { ($0, 40) })
      var removals: [MailboxRemoval] = []
      for mailbox in mailboxes {
        for place in try await Self.places(mailbox, in: store) {
          let devices: [Int64] =
            removals.count.isMultiple(of: 3) ? [] : removals.count.isMultiple(of: 2) ? [1] : [1, 2]
          let receipt = devices.isEmpty ? nil : try Self.receipt(removals.count, to: devices)
          removals.append(MailboxRemoval(place, receipt: receipt))
        }
      }
      #expect(try await store.storage.remove(removals.shuffled()) == Set(removals.map(\.place)))
      for device: Int64 in 1...2 {
        let due = removals.compactMap(\.receipt).filter { $0.devices.contains { $0.value == device } }
        let found = try await Self.envelopes(DeviceAddress(sender.account, Sample.device(device)), in: store)
        #expect(found.count == due.count)
        #expect(Set(found.map(\.fingerprint)) == Set(due.map(\.fingerprint)))
      }
    }
  }

  @Test(arguments: Backend.allCases)
  func `if several remove the same messages, each receipt is stored once`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let (mailbox, sender) = try (Sample.address(1), Sample.address(2))
      try await store.storage.append((0..<100).map { Sample.envelope(to: mailbox, from: sender, id: $0) })
      let removals = try await Self.places(mailbox, in: store).enumerated().map {
        MailboxRemoval($1, receipt: try Self.receipt($0))
      }
      let removed = try await withThrowingTaskGroup(of: Set<MailboxPlace>.self) { group in
        for _ in 0..<16 {
          let some = removals.shuffled()
          group.addTask { try await store.storage.remove(some) }
        }
        return try await group.reduce(into: []) { $0 += Array($1) }
      }
      #expect(removed.count == 100 && Set(removed) == Set(removals.map(\.place)))
      for device: Int64 in 1...2 {
        let found = try await Self.envelopes(Sample.address(2, device: device), in: store)
        #expect(found.count == 100 && Set(found.map(\.fingerprint)).count == 100)
      }
    }
  }

  @Test(arguments: Backend.allCases)
  func `a removed message is remembered: a retry is not stored again, and its sender is known`(_ backend: Backend)
    async throws
  {
    try await backend.withStore { store in
      let (mailbox, source) = try (Sample.address(1), Sample.address(2))
      let message = Sample.envelope(to: mailbox, from: source, id: 1)
      // A peer may hand its receipts over again.
      let notices = try [
        Sample.envelope(to: mailbox, from: source, id: 2, type: .receipt, relay: Sample.relay("beta")),
        Sample.envelope(to: mailbox, from: source, id: 3, type: .undeliverable),
      ]
      try await store.storage.append([message] + notices)
      let places = try await Self.places(mailbox, in: store)
      #expect(try await store.storage.remove(places) == Set(places))

      try await store.storage.append([message] + notices)
      #expect(try await store.mailbox(mailbox).isEmpty)
      func standing(_ envelope: Envelope) async throws -> MessageStanding {
        try await store.storage.standing(of: envelope.timestamp, from: source.account, in: mailbox)
      }
      #expect(try await standing(message) == .acknowledged)
      for notice in notices { #expect(try await standing(notice) == .unknown) }
      #expect(
        try await store.storage.usage(of: mailbox, by: source.account, from: nil, countingTo: 10)
          == MailboxUsage(total: 0, bySource: 0))
    }
  }

  /// Half of all removals are those of receipts.
  @Test(arguments: Backend.allCases)
  func `a receipt of this relay is not remembered`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let (mailbox, source) = try (Sample.address(1), Sample.address(2))
      let receipt = Sample.envelope(to: mailbox, from: source, id: 1, type: .receipt)
      for _ in 0..<2 {
        try await store.storage.append([receipt])
        let places = try await Self.places(mailbox, in: store)
        #expect(places.count == 1)
        #expect(try await store.storage.remove(places) == Set(places))
        #expect(
          try await store.storage.standing(of: receipt.timestamp, from: source.account, in: mailbox) == .unknown)
      }
    }
  }
}
