import RelayCore
import Storage
import TestTags
import Testing

@Suite(.tags(.stores)) struct MessageContract {
  @Test(arguments: Backend.allCases)
  func `envelopes come back whole and in the order of acceptance`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.registerAccounts(3)
      let (mailbox, other) = try (Sample.address(1), Sample.address(1, device: 2))
      let relay = try Sample.relay("beta")
      var sent: [Envelope] = []
      for id in 0..<20 {
        // The sender's time runs backwards: order goes by arrival.
        let envelope = try Sample.envelope(
          to: mailbox, from: Sample.address(id.isMultiple(of: 3) ? 0 : 2, device: Int64(id % 2 + 1)), id: id,
          relay: id.isMultiple(of: 5) ? relay : nil, timestamp: Timestamp(millis: Sample.noon.millis - Int64(id)))
        sent.append(envelope)
      }
      try await store.storage.append(Array(sent[0..<5]))
      for envelope in sent[5..<10] { try await store.storage.append([envelope]) }
      try await store.storage.append(Array(sent[10...]) + [Sample.envelope(to: other, from: mailbox, id: 50)])

      let queued = try await store.mailbox(mailbox)
      #expect(queued.map(\.envelope) == sent)
      #expect(zip(queued, queued.dropFirst()).allSatisfy { $0.sequence < $1.sequence })
      #expect(try await store.mailbox(other).count == 1)
    }
  }

  @Test(arguments: Backend.allCases)
  func `pages continue after a sequence and hold at most the limit`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let (mailbox, source) = try (Sample.address(1), Sample.address(2))
      let sent = (0..<25).map { Sample.envelope(to: mailbox, from: source, id: $0) }
      try await store.storage.append(sent)
      let first = try await store.storage.pending(in: mailbox, after: 0, limit: 10)
      #expect(first.map(\.envelope) == Array(sent[0..<10]))
      let last = try #require(first.last)
      let second = try await store.storage.pending(in: mailbox, after: last.sequence, limit: 100)
      #expect(second.map(\.envelope) == Array(sent[10...]))
      let end = try #require(second.last)
      #expect(try await store.storage.pending(in: mailbox, after: end.sequence, limit: 1).isEmpty)
    }
  }

  @Test(arguments: Backend.allCases)
  func `a repeated envelope is stored once, also after it was acknowledged`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let (mailbox, source) = try (Sample.address(1), Sample.address(2))
      let envelope = Sample.envelope(to: mailbox, from: source, id: 1)
      try await store.storage.append([])
      try await store.storage.append([envelope, envelope])
      try await store.storage.append([envelope])
      #expect(try await store.mailbox(mailbox).count == 1)
      // Another mailbox with the same content is another message.
      let copy = try Sample.envelope(to: Sample.address(1, device: 2), from: source, id: 1)
      try await store.storage.append([copy])
      #expect(try await store.mailbox(copy.destination).count == 1)

      let removed = try await store.storage.acknowledge(
        source: source.account, timestamp: envelope.timestamp, in: mailbox)
      #expect(removed?.envelope == envelope)
      try await store.storage.append([envelope])
      #expect(try await store.mailbox(mailbox).isEmpty)
      store.clock.advance(.seconds(24 * 3600))
      _ = try await store.storage.maintain(RetentionTerms())
      try await store.storage.append([envelope])
      #expect(try await store.mailbox(mailbox).isEmpty)
    }
  }

  @Test(arguments: Backend.allCases)
  func `64 callers who append the same envelope store it once`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let (mailbox, source) = try (Sample.address(1), Sample.address(2))
      let shared = Sample.envelope(to: mailbox, from: source, id: 1000)
      try await withThrowingTaskGroup(of: Void.self) { group in
        for caller in 0..<64 {
          group.addTask {
            try await store.storage.append([shared, Sample.envelope(to: mailbox, from: source, id: caller)])
          }
        }
        try await group.waitForAll()
      }
      let queued = try await store.mailbox(mailbox)
      #expect(queued.count == 65)
      #expect(Set(queued.map(\.sequence)).count == 65)
      #expect(queued.filter { $0.envelope == shared }.count == 1)
    }
  }

  @Test(arguments: Backend.allCases)
  func `appends that wait for each other keep their order while others append`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let mailbox = try Sample.address(1)
      try await withThrowingTaskGroup(of: Void.self) { group in
        for caller in 2..<10 {
          group.addTask {
            let source = try Sample.address(caller)
            for id in 0..<25 { try await store.storage.append([Sample.envelope(to: mailbox, from: source, id: id)]) }
          }
        }
        try await group.waitForAll()
      }
      let queued = try await store.mailbox(mailbox, page: 7).map(\.envelope)
      #expect(queued.count == 200)
      for caller in 2..<10 {
        let source = try Sample.address(caller)
        let mine = queued.filter { $0.source == source }
        #expect(mine == (0..<25).map { Sample.envelope(to: mailbox, from: source, id: $0) })
      }
    }
  }

  @Test(arguments: Backend.allCases)
  func `nothing is accepted once the store is closed`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let envelope = try Sample.envelope(to: Sample.address(1), from: Sample.address(2), id: 1)
      await store.storage.close()
      let error = await #expect(throws: StoreError.self) { try await store.storage.append([envelope]) }
      guard case .unavailable = error else {
        Issue.record("not unavailable: \(String(describing: error))")
        return
      }
    }
  }

  @Test(arguments: Backend.allCases)
  func `an acknowledgement removes the oldest match of this device alone`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let (mailbox, sibling, source) = try (Sample.address(1), Sample.address(1, device: 2), Sample.address(2))
      let time = Timestamp(millis: 1234)
      let first = Sample.envelope(to: mailbox, from: source, id: 1, timestamp: time)
      let second = Sample.envelope(to: mailbox, from: source, id: 2, timestamp: time)
      let later = Sample.envelope(to: mailbox, from: source, id: 3, timestamp: Timestamp(millis: 1235))
      let stranger = try Sample.envelope(to: mailbox, from: Sample.address(3), id: 4, timestamp: time)
      let copy = Sample.envelope(to: sibling, from: source, id: 1, timestamp: time)
      try await store.storage.append([first, second, later, stranger, copy])

      func acknowledge() async throws -> Envelope? {
        try await store.storage.acknowledge(source: source.account, timestamp: time, in: mailbox)?.envelope
      }
      #expect(try await acknowledge() == first)
      #expect(try await store.mailbox(mailbox).map(\.envelope) == [second, later, stranger])
      #expect(try await acknowledge() == second)
      #expect(try await acknowledge() == nil)
      #expect(try await store.mailbox(mailbox).map(\.envelope) == [later, stranger])
      #expect(try await store.mailbox(sibling).map(\.envelope) == [copy])
    }
  }

  @Test(arguments: Backend.allCases)
  func `a mailbox knows whose message it took in, queued or acknowledged`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let (mailbox, sibling, source) = try (Sample.address(1), Sample.address(1, device: 2), Sample.address(2))
      let time = Timestamp(millis: 1234)
      func standing(
        _ mailbox: DeviceAddress, from source: DeviceAddress, at time: Timestamp
      ) async throws -> MessageStanding {
        try await store.storage.standing(of: time, from: source.account, in: mailbox)
      }
      #expect(try await standing(mailbox, from: source, at: time) == .unknown)
      let message = Sample.envelope(to: mailbox, from: source, id: 1, timestamp: time)
      let copy = Sample.envelope(to: sibling, from: source, id: 1, timestamp: time)
      #expect(try await !store.storage.isKnown([message]))
      try await store.storage.append([message])
      for expected in [MessageStanding.queued, .acknowledged] {
        #expect(try await standing(mailbox, from: source, at: time) == expected)
        // The sender's device does not matter, all else does.
        #expect(try await standing(mailbox, from: Sample.address(2, device: 5), at: time) == expected)
        #expect(try await standing(mailbox, from: source, at: Timestamp(millis: 1235)) == .unknown)
        #expect(try await standing(mailbox, from: Sample.address(3), at: time) == .unknown)
        #expect(try await standing(sibling, from: source, at: time) == .unknown)
        #expect(try await store.storage.isKnown([message]))
        // All of them, each by its own mailbox.
        #expect(try await !store.storage.isKnown([message, copy]))
        guard expected == .queued else { break }
        #expect(
          try await store.storage.acknowledge(source: source.account, timestamp: time, in: mailbox) != nil)
      }
      // Of two messages of one time the one that is queued counts.
      try await store.storage.append([Sample.envelope(to: mailbox, from: source, id: 2, timestamp: time)])
      #expect(try await standing(mailbox, from: source, at: time) == .queued)
    }
  }

  @Test(arguments: Backend.allCases)
  func `the oldest message of a sender and time is found, and the next one behind it`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let (mailbox, source) = try (Sample.address(1), Sample.address(2))
      let time = Timestamp(millis: 1234)
      let sent = (0..<3).map { Sample.envelope(to: mailbox, from: source, id: $0, timestamp: time) }
      try await store.storage.append(sent)
      var found: [Envelope] = []
      var last: Int64 = 0
      while let next = try await store.storage.oldest(
        from: source.account, timestamp: time, in: mailbox, after: last)
      {
        #expect(next.sequence > last)
        (found, last) = (found + [next.envelope], next.sequence)
      }
      #expect(found == sent)
    }
  }

  @Test(arguments: Backend.allCases)
  func `a receipt, or word of what was not delivered, is no message that was received`(_ backend: Backend) async throws
  {
    try await backend.withStore { store in
      let (mailbox, source) = try (Sample.address(1), Sample.address(2))
      let time = Timestamp(millis: 1234)
      func hasReceived() async throws -> Bool {
        try await store.storage.standing(of: time, from: source.account, in: mailbox) != .unknown
      }
      for (id, type) in [MessageType.receipt, .undeliverable].enumerated() {
        let notice = Sample.envelope(to: mailbox, from: source, id: id, type: type, timestamp: time)
        try await store.storage.append([notice])
        #expect(try await !hasReceived())
        let removed = try await store.storage.acknowledge(source: source.account, timestamp: time, in: mailbox)
        #expect(removed?.envelope == notice)
        #expect(try await !hasReceived())
      }
      try await store.storage.append([Sample.envelope(to: mailbox, from: source, id: 2, timestamp: time)])
      #expect(try await hasReceived())
    }
  }

  @Test(arguments: Backend.withClock)
  func `a mailbox knows messages acknowledged today and yesterday, and no older ones`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let (mailbox, source) = try (Sample.address(1), Sample.address(2))
      let envelope = Sample.envelope(to: mailbox, from: source, id: 1)
      try await store.storage.append([envelope])
      _ = try await store.storage.acknowledge(source: source.account, timestamp: envelope.timestamp, in: mailbox)
      for expected in [true, true, false] {
        let standing = try await store.storage.standing(
          of: envelope.timestamp, from: source.account, in: mailbox)
        #expect(standing == (expected ? .acknowledged : .unknown))
        store.clock.advance(.seconds(86_400))
      }
    }
  }

  @Test(arguments: Backend.allCases)
  func `envelopes are counted in all and by sender, up to a bound`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let (mailbox, sibling, source) = try (Sample.address(1), Sample.address(1, device: 2), Sample.address(2))
      func usage(_ mailbox: DeviceAddress, countingTo max: Int = 100) async throws -> MailboxUsage {
        try await store.storage.usage(of: mailbox, by: source.account, from: nil, countingTo: max)
      }
      #expect(try await usage(mailbox) == MailboxUsage(total: 0, bySource: 0))
      var sent: [Envelope] = []
      for id in 0..<12 {
        // Every third is another sender's; a sender's devices count together.
        let from = try Sample.address(id.isMultiple(of: 3) ? 3 : 2, device: Int64(id % 2 + 1))
        sent.append(Sample.envelope(to: mailbox, from: from, id: id))
      }
      try await store.storage.append(sent + [Sample.envelope(to: sibling, from: source, id: 50)])
      #expect(try await usage(mailbox) == MailboxUsage(total: 12, bySource: 8))
      #expect(try await usage(sibling) == MailboxUsage(total: 1, bySource: 1))
      #expect(try await usage(mailbox, countingTo: 10) == MailboxUsage(total: 10, bySource: 8))
      #expect(try await usage(mailbox, countingTo: 3) == MailboxUsage(total: 3, bySource: 3))
      for envelope in sent[1...2] {
        _ = try await store.storage.acknowledge(source: source.account, timestamp: envelope.timestamp, in: mailbox)
      }
      #expect(try await usage(mailbox) == MailboxUsage(total: 10, bySource: 6))
    }
  }

  @Test(arguments: Backend.allCases)
  func `envelopes of all peers and of one peer are counted as well`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let (mailbox, source) = try (Sample.address(1), Sample.address(2))
      func usage(from peer: String, countingTo max: Int = 100) async throws -> MailboxUsage {
        try await store.storage.usage(of: mailbox, by: source.account, from: Sample.relay(peer), countingTo: max)
      }
      #expect(try await usage(from: "beta") == MailboxUsage(total: 0, bySource: 0))
      let relays = [nil, nil, "beta", "beta", "beta", "gamma"]
      try await store.storage.append(
        relays.enumerated().map { index, relay in
          Sample.envelope(to: mailbox, from: source, id: index, relay: try relay.map(Sample.relay))
        })
      #expect(try await usage(from: "beta") == MailboxUsage(total: 6, bySource: 6, byPeers: 4, byPeer: 3))
      #expect(try await usage(from: "gamma") == MailboxUsage(total: 6, bySource: 6, byPeers: 4, byPeer: 1))
      #expect(try await usage(from: "delta") == MailboxUsage(total: 6, bySource: 6, byPeers: 4, byPeer: 0))
      #expect(
        try await usage(from: "beta", countingTo: 2) == MailboxUsage(total: 2, bySource: 2, byPeers: 2, byPeer: 2))
    }
  }

  @Test(arguments: Backend.withClock)
  func `retention drops whole days, and only when all of a day is older`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let (mailbox, source) = try (Sample.address(1), Sample.address(2))
      let retention = Duration.seconds(2 * 86_400)
      for id in 0..<4 {
        try await store.storage.append([Sample.envelope(to: mailbox, from: source, id: id)])
        if id == 1 { store.clock.advance(.seconds(86_400)) }
      }
      // Two arrived on day 0, two on day 1, all at noon; now it is noon of day 1.
      #expect(try await store.storage.maintain(RetentionTerms(messages: retention)) == 0)
      // A clock that went further from one run to the next would not be believed.
      for step in [86_400, 43_199] {
        store.clock.advance(.seconds(step))
        #expect(try await store.storage.maintain(RetentionTerms(messages: retention)) == 0)
      }
      #expect(try await store.mailbox(mailbox).count == 4)
      // The end of day 0 is two days past.
      store.clock.advance(.seconds(1))
      #expect(try await store.storage.maintain(RetentionTerms(messages: retention)) == 1)
      #expect(try await store.mailbox(mailbox).count == 2)
      #expect(try await store.storage.maintain(RetentionTerms(messages: retention)) == 0)
      store.clock.advance(.seconds(86_400))
      #expect(try await store.storage.maintain(RetentionTerms(messages: retention)) == 1)
      #expect(try await store.mailbox(mailbox).isEmpty)
    }
  }

  @Test(arguments: Backend.withClock)
  func `maintenance by several at once drops each day once and leaves appends alone`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let (mailbox, source) = try (Sample.address(1), Sample.address(2))
      try await store.storage.append((0..<50).map { Sample.envelope(to: mailbox, from: source, id: $0) })
      store.clock.advance(.seconds(40 * 86_400))
      try await withThrowingTaskGroup(of: Void.self) { group in
        for id in 100..<110 {
          group.addTask { _ = try await store.storage.maintain(RetentionTerms()) }
          group.addTask { try await store.storage.append([Sample.envelope(to: mailbox, from: source, id: id)]) }
        }
        try await group.waitForAll()
      }
      #expect(try await store.mailbox(mailbox).count == 10)
    }
  }
}
