import RelayCore
import Storage
import TestTags
import Testing

/// Reads of the mailboxes by live connections.
@Suite(.tags(.stores)) struct WaitingContract {
  @Test(arguments: Backend.allCases)
  func `messages that the reader lacks come in the order of acceptance, up to each mailbox's limit`(_ backend: Backend)
    async throws
  {
    try await backend.withStore { store in
      let mailboxes = try (1...3).map { try Sample.address($0) }
      let sent = try await store.fill([(mailboxes[0], 10), (mailboxes[1], 3)], turns: true)
      let first = try await store.storage.waiting([
        MailboxRead(mailboxes[1], held: [], limit: 10), MailboxRead(mailboxes[2], held: [], limit: 10),
        MailboxRead(mailboxes[0], held: [], limit: 4),
      ])
      #expect(first.map { $0.map(\.envelope) } == [sent[1], [], Array(sent[0][..<4])])
      #expect(try await first[2] == Array(store.mailbox(mailboxes[0])[..<4]))

      // A reader that names what it holds gets the rest, and nothing twice.
      var held = first[2]
      while true {
        let next = try await store.waiting(mailboxes[0], held: held, limit: 3)
        if next.isEmpty { break }
        #expect(next.count == min(3, 10 - held.count))
        held += next
      }
      #expect(held.map(\.envelope) == sent[0])
    }
  }

  @Test(arguments: Backend.allCases)
  func `messages that the reader holds are left out wherever they stand, and no others`(_ backend: Backend) async throws
  {
    try await backend.withStore { store in
      let (mailbox, other) = try (Sample.address(1), Sample.address(1, device: 2))
      try await store.fill([(mailbox, 12), (other, 4)], turns: true)
      let (all, others) = try await (store.mailbox(mailbox), store.mailbox(other))
      for places in [[1, 4, 5], [0], [11], [11, 0, 3, 3], Array(0..<12), []] {
        let expected = all.indices.filter { !places.contains($0) }.map { all[$0] }
        #expect(try await store.waiting(mailbox, held: places.map { all[$0] }, limit: 20) == expected)
        #expect(try await store.waiting(mailbox, held: places.map { all[$0] }, limit: 2) == Array(expected.prefix(2)))
      }
      // A reader may also name envelopes that were removed, that another mailbox has, or that never were.
      let strange = others.map(\.sequence) + [0, -1, .max, .min]
      let read = MailboxRead(mailbox, held: strange, limit: 20)
      #expect(try await store.storage.waiting([read]) == [all])
      // One reader's held envelopes do not affect another that is read beside it.
      #expect(try await store.storage.waiting([read, MailboxRead(other, held: [], limit: 20)]) == [all, others])
    }
  }

  @Test(arguments: Backend.allCases)
  func `many mailboxes are read at once, each for itself`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let mailboxes = try (1...150).map { try Sample.address($0 % 50 + 1, device: Int64($0 / 50 + 1)) }
      let sent = try await store.fill(mailboxes.enumerated().map { ($1, $0 % 4) }, turns: true)
      // Twice: the second time the store knows what the mailboxes are like.
      for _ in 0..<2 {
        let found = try await store.storage.waiting(mailboxes.map { MailboxRead($0, held: [], limit: 2) })
        #expect(found.map { $0.map(\.envelope) } == sent.map { Array($0.prefix(2)) })
        let reads = zip(mailboxes, found).map { mailbox, found in
          MailboxRead(mailbox, held: found.map(\.sequence) + Array(1_000_000..<1_000_080), limit: 9)
        }
        let rest = try await store.storage.waiting(reads.reversed())
        #expect(rest.reversed().map { $0.map(\.envelope) } == sent.map { Array($0.dropFirst(2)) })
      }
      #expect(try await store.storage.waiting([]).isEmpty)
    }
  }

  @Test(arguments: Backend.allCases)
  func `a read sees all messages accepted before it, while others append`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let mailbox = try Sample.address(1)
      try await withThrowingTaskGroup(of: Void.self) { group in
        for caller in 2..<6 {
          group.addTask { try await Self.expectFreshness(caller, in: mailbox, store) }
        }
        try await group.waitForAll()
      }
    }
  }

  private static func expectFreshness(_ caller: Int, in mailbox: DeviceAddress, _ store: Store) async throws {
    let source = try Sample.address(caller)
    for id in 0..<20 {
      let envelope = Sample.envelope(to: mailbox, from: source, id: id)
      try await store.storage.append([envelope])
      let seen = try await store.waiting(mailbox, held: [], limit: 100)
      let mine = seen.map(\.envelope).filter { $0.source == source }
      #expect(mine == (0...id).map { Sample.envelope(to: mailbox, from: source, id: $0) })
    }
  }

  @Test(arguments: Backend.allCases) func `large messages come whole`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let (mailbox, source) = try (Sample.address(1), Sample.address(2))
      let sent = (0..<20).map { id in
        Envelope(
          destination: mailbox, type: .ciphertext, source: source, relay: nil, timestamp: Sample.noon,
          message: [UInt8](repeating: UInt8(id), count: WireLimits.messageBytesMax),
          content: id.isMultiple(of: 2) ? [UInt8](repeating: UInt8(id), count: WireLimits.messageBytesMax) : nil,
          fingerprint: Fingerprint(high: 1, low: UInt64(id)))
      }
      try await store.storage.append(sent)
      let found = try await store.waiting(mailbox, held: [], limit: 16)
      #expect(found.map(\.envelope) == Array(sent[..<16]))
      #expect(try await store.waiting(mailbox, held: found, limit: 16).map(\.envelope) == Array(sent[16...]))
    }
  }

  @Test(arguments: Backend.allCases)
  func `a removal takes the places that it names, and says which it took`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let mailboxes = try [Sample.address(1), Sample.address(1, device: 2), Sample.address(2)]
      try await store.fill(mailboxes.map { ($0, 6) }, turns: true)
      var places: [[MailboxPlace]] = []
      for mailbox in mailboxes {
        places.append(try await store.mailbox(mailbox).map { MailboxPlace(mailbox, sequence: $0.sequence) })
      }
      #expect(try await store.storage.remove([MailboxRemoval]()).isEmpty)
      let some = Set(places[0][1...2] + [places[1][5]])
      // Named twice is named once; a place in another mailbox is none.
      let strange = places[2].map { MailboxPlace(mailboxes[0], sequence: $0.sequence) }
      let unknown = [MailboxPlace(mailboxes[2], sequence: .max), MailboxPlace(mailboxes[2], sequence: 0)]
      #expect(try await store.storage.remove(Array(some) + places[0][1...2] + strange + unknown) == some)
      for (mailbox, placesHere) in zip(mailboxes, places) {
        let left = try await store.mailbox(mailbox).map { MailboxPlace(mailbox, sequence: $0.sequence) }
        #expect(left == placesHere.filter { !some.contains($0) })
      }
      let all = places.flatMap(\.self)
      #expect(try await store.storage.queued(among: all + strange + unknown + all) == Set(all).subtracting(some))
      #expect(try await store.storage.queued(among: Array(some)).isEmpty)
      #expect(try await store.storage.queued(among: []).isEmpty)
      #expect(try await store.storage.remove(Array(some)).isEmpty)
      #expect(try await store.storage.remove(places[0]) == Set(places[0]).subtracting(some))
      let left = try await store.storage.waiting(mailboxes.map { MailboxRead($0, held: [], limit: 10) })
      #expect(left.map(\.count) == [0, 5, 6])
    }
  }

  @Test(arguments: Backend.allCases)
  func `many places in many mailboxes are removed at once`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let mailboxes = try (1...30).map { try Sample.address($0) }
      try await store.fill(mailboxes.map { ($0, 50) })
      var places: [MailboxPlace] = []
      for mailbox in mailboxes {
        places += try await store.mailbox(mailbox).map { MailboxPlace(mailbox, sequence: $0.sequence) }
      }
      let some = places.filter { !$0.sequence.isMultiple(of: 5) }
      #expect(some.count == 1200)
      #expect(try await store.storage.remove(some) == Set(some))
      let left = try await store.storage.waiting(mailboxes.map { MailboxRead($0, held: [], limit: 50) })
      #expect(left.allSatisfy { $0.count == 10 && $0.allSatisfy { $0.sequence.isMultiple(of: 5) } })
      #expect(try await store.storage.remove(places) == Set(places).subtracting(some))
    }
  }

  @Test(arguments: Backend.allCases)
  func `if several remove the same messages, each place is one's`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let mailbox = try Sample.address(1)
      try await store.fill([(mailbox, 200)])
      let places = try await store.mailbox(mailbox).map { MailboxPlace(mailbox, sequence: $0.sequence) }
      let removed = try await withThrowingTaskGroup(of: Set<MailboxPlace>.self) { group in
        for caller in 0..<16 {
          group.addTask { try await store.storage.remove(caller.isMultiple(of: 2) ? places : places.reversed()) }
        }
        return try await group.reduce(into: []) { $0 += Array($1) }
      }
      #expect(removed.count == 200)
      #expect(Set(removed) == Set(places))
      #expect(try await store.mailbox(mailbox).isEmpty)
    }
  }

  @Test(arguments: Backend.allCases)
  func `nothing is read or removed once the store is closed`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let mailbox = try Sample.address(1)
      await store.storage.close()
      await #expect(throws: StoreError.self) { _ = try await store.waiting(mailbox, held: [], limit: 1) }
      await #expect(throws: StoreError.self) {
        _ = try await store.storage.remove([MailboxPlace(mailbox, sequence: 1)])
      }
    }
  }
}

extension Store {
  /// Stores envelopes of one sender: as many in each mailbox as is said, in turns or one mailbox after the other.
  /// - Returns: of each mailbox its envelopes, in the order of acceptance.
  @discardableResult
  func fill(_ mailboxes: [(DeviceAddress, count: Int)], turns: Bool = false) async throws -> [[Envelope]] {
    let source = try Sample.address(999)
    let sent = mailboxes.map { mailbox, count in
      (0..<count).map { Sample.envelope(to: mailbox, from: source, id: $0) }
    }
    if turns {
      for turn in 0..<(sent.map(\.count).max() ?? 0) {
        try await storage.append(sent.filter { $0.count > turn }.map { $0[turn] })
      }
    } else {
      try await storage.append(sent.flatMap { $0 })
    }
    return sent
  }

  func waiting(_ mailbox: DeviceAddress, held: [QueuedEnvelope], limit: Int) async throws -> [QueuedEnvelope] {
    let found = try await storage.waiting([MailboxRead(mailbox, held: held.map(\.sequence), limit: limit)])
    #expect(found.count == 1)
    return found.first ?? []
  }
}
