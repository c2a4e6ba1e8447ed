import RelayCore
import Storage
import TestTags
import Testing

/// The words of a store about what it has just stored, by which a message is delivered without a read.
@Suite(.tags(.stores)) struct AppendContract {
  @Test(arguments: Backend.allCases)
  func `an append tells the places of what it stored, and what else was in the mailbox`(_ backend: Backend) async throws
  {
    try await backend.withStore { store in
      let (mailbox, sibling) = try (Sample.address(1), Sample.address(1, device: 2))
      let (stranger, source) = try (Sample.address(3), Sample.address(2))
      let appends = CollectedAppends([mailbox])
      func envelope(_ id: Int, to destination: DeviceAddress) -> Envelope {
        Sample.envelope(to: destination, from: source, id: id)
      }
      let first = [
        envelope(0, to: mailbox), envelope(0, to: sibling), envelope(1, to: stranger), envelope(2, to: mailbox),
        envelope(0, to: mailbox),
      ]
      try await store.storage.append(first, watch: appends)
      let queued = try await store.mailbox(mailbox)
      #expect(appends.last.map(\.envelope) == first)
      // A repetition has no place, nor has what nobody watches.
      #expect(
        appends.last.map { $0.place?.sequence } == [queued[0].sequence, nil, nil, queued[1].sequence, nil])
      let (one, two) = (try #require(appends.last[0].place), try #require(appends.last[3].place))
      #expect(one.others == [])
      #expect(Set(try #require(two.others)).isSubset(of: [one.sequence]))

      // Others are those of this mailbox alone, whoever appended them.
      try await store.storage.append([envelope(3, to: mailbox), envelope(3, to: sibling)])
      try await store.storage.append([envelope(4, to: mailbox)], watch: appends)
      let three = try #require(try await store.mailbox(mailbox).dropFirst(2).first)
      let four = try #require(appends.last.first?.place)
      #expect(Set(try #require(four.others)) == [one.sequence, two.sequence, three.sequence])
      #expect(four.others?.count == 3 && three.sequence < four.sequence)

      // What was removed is not among them.
      let places = [one.sequence, three.sequence].map { MailboxPlace(mailbox, sequence: $0) }
      #expect(try await store.storage.remove(places).count == 2)
      try await store.storage.append([envelope(5, to: mailbox)], watch: appends)
      #expect(Set(try #require(appends.last.first?.place?.others)) == [two.sequence, four.sequence])

      // Stored before, or acknowledged before: nothing new.
      try await store.storage.append([envelope(5, to: mailbox), envelope(0, to: mailbox)], watch: appends)
      #expect(appends.last.map(\.place) == [nil, nil])
      #expect(appends.calls.count == 4)
    }
  }

  @Test(arguments: Backend.allCases)
  func `a peer's messages, which are counted as they are stored, have their places too`(_ backend: Backend) async throws
  {
    try await backend.withStore { store in
      let (mailbox, source) = try (Sample.address(1), Sample.address(2))
      let relay = try Sample.relay("beta")
      let appends = CollectedAppends([mailbox])
      func envelope(_ id: Int, mark: Int64?) -> Envelope {
        var envelope = Sample.envelope(to: mailbox, from: source, id: id, relay: relay)
        envelope.mark = mark.map { CrossingMark(bits: $0) }
        return envelope
      }
      try await store.storage.append([envelope(0, mark: nil)])
      try await store.storage.append(
        [envelope(1, mark: 11), envelope(0, mark: 10), envelope(2, mark: nil), envelope(3, mark: 13)], watch: appends)
      let queued = try await store.mailbox(mailbox).map(\.sequence)
      #expect(appends.last.map { $0.place?.sequence } == [queued[1], nil, queued[2], queued[3]])
      for message in appends.last {
        guard let place = message.place else { continue }
        let others = Set(try #require(place.others))
        #expect(others.contains(queued[0]) && others.isSubset(of: queued.filter { $0 < place.sequence }))
      }
    }
  }

  @Test(arguments: Backend.allCases)
  func `a mailbox that holds more than a few is not named`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let (mailbox, source) = try (Sample.address(1), Sample.address(2))
      let appends = CollectedAppends([mailbox])
      try await store.storage.append(
        (0..<AppendedPlace.othersMax).map { Sample.envelope(to: mailbox, from: source, id: $0) })
      for (id, count) in [(100, AppendedPlace.othersMax), (101, nil)] {
        try await store.storage.append([Sample.envelope(to: mailbox, from: source, id: id)], watch: appends)
        let place = try #require(appends.last.first?.place)
        #expect(place.others?.count == count)
      }
    }
  }

  /// A window hears of nothing that could have been told before, and knows all that an append has seen.
  @Test(arguments: Backend.allCases)
  func `callers at once: messages are told in the order of their sequences, and an append sees none untold`(
    _ backend: Backend
  ) async throws {
    try await backend.withStore { store in
      let mailbox = try Sample.address(1)
      let appends = CollectedAppends([mailbox])
      try await withThrowingTaskGroup(of: Void.self) { group in
        for caller in 2..<8 {
          group.addTask {
            let source = try Sample.address(caller)
            for id in 0..<5 {
              try await store.storage.append([Sample.envelope(to: mailbox, from: source, id: id)], watch: appends)
            }
          }
        }
        try await group.waitForAll()
      }
      let places = appends.calls.joined().compactMap(\.place)
      #expect(places.map(\.sequence) == (try await store.mailbox(mailbox).map(\.sequence)))
      var told: Set<Int64> = []
      for place in places {
        #expect(Set(try #require(place.others)).isSubset(of: told))
        told.insert(place.sequence)
      }
    }
  }

  @Test func `an append sees each message that another process had accepted before it was submitted`() async throws {
    try await withPostgres { first, _, url in
      let second = try await PostgresStorage.connected(to: url)
      let (mailbox, source) = (try Sample.address(1), try Sample.address(2))
      let appends = CollectedAppends([mailbox])
      var accepted: Set<Int64> = []
      for id in 0..<30 {
        let storage = id.isMultiple(of: 2) ? first : second
        try await storage.append([Sample.envelope(to: mailbox, from: source, id: id)], watch: appends)
        let place = try #require(appends.last.first?.place)
        #expect(Set(try #require(place.others)) == accepted)
        #expect(accepted.allSatisfy { $0 < place.sequence })
        accepted.insert(place.sequence)
      }
      await second.close()
    }
  }
}
