// Live connections of several processes over one database: what one of them appends or removes while another reads.

import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Storage

@Suite(.tags(.stores)) struct PostgresWaitingTests {
  /// A row that shows late with a lower sequence is neither lost nor shown before what it follows.
  @Test func `a reader gets all once and in order while two processes append`() async throws {
    try await withPostgres { reading, _, url in
      let processes = try await PostgresStorage.connected(2, to: url)
      let mailbox = try Sample.address(1)
      let (senders, count, chain) = (4, 40, 60)
      try await withThrowingTaskGroup(of: Void.self) { group in
        for sender in 0..<senders {
          let storage = processes[sender % 2]
          group.addTask {
            let source = try Sample.address(10 + sender)
            for id in 0..<count { try await storage.append([Sample.envelope(to: mailbox, from: source, id: id)]) }
          }
        }
        // One message after the other, in turns of the processes: each is submitted when the one before is accepted.
        group.addTask {
          let source = try Sample.address(9)
          for id in 0..<chain {
            try await processes[id % 2].append([Sample.envelope(to: mailbox, from: source, id: id)])
          }
        }
        group.addTask { try await Self.receive(senders * count + chain, in: mailbox, from: reading) }
        try await group.waitForAll()
      }
      #expect(try await reading.pending(in: mailbox, after: 0, limit: 10).isEmpty)
      for storage in processes { await storage.close() }
    }
  }

  /// Reads as a live connection does, and acknowledges in no order.
  private static func receive(_ count: Int, in mailbox: DeviceAddress, from storage: PostgresStorage) async throws {
    var held: [QueuedEnvelope] = []
    var next: [AccountNumber: Int] = [:]
    var seen: Set<Int64> = []
    try await eventually("everything arrives", within: .seconds(180), every: .milliseconds(5)) {
      let read = MailboxRead(mailbox, held: held.map(\.sequence), limit: 7)
      for found in try await storage.waiting([read])[0] {
        #expect(seen.insert(found.sequence).inserted)
        let id = next[found.envelope.source.account, default: 0]
        #expect(found.envelope == Sample.envelope(to: mailbox, from: found.envelope.source, id: id))
        next[found.envelope.source.account] = id + 1
        held.append(found)
      }
      held.shuffle()
      if held.count > 20 || seen.count == count {
        let places = held.prefix(seen.count == count ? held.count : 12).map {
          MailboxPlace(mailbox, sequence: $0.sequence)
        }
        #expect(try await storage.remove(places) == Set(places))
        held.removeFirst(places.count)
      }
      return seen.count == count && held.isEmpty
    }
  }

  /// Each waits for nobody: what another is removing is passed over, and what both remember they remember in one order.
  @Test func `processes that remove the same messages take each once, and never deadlock`() async throws {
    try await withPostgres { first, server, url in
      let processes = try await [first] + PostgresStorage.connected(2, to: url)
      let mailboxes = try (1...20).map { try Sample.address($0) }
      let store = Store(storage: first, clock: ManualClock(Sample.noon))
      try await store.fill(mailboxes.map { ($0, 10) })
      // The same messages a second time: so long after the first that nobody knows them any more.
      for table in ["messages", "acknowledged"] { try server.addDay(3, to: table, in: url) }
      try server.sql("UPDATE messages SET day = day - 3", in: url)
      try await store.fill(mailboxes.map { ($0, 10) })
      try server.sql(
        """
        CREATE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql AS
          $$ BEGIN PERFORM pg_sleep(0.001); RETURN NEW; END $$;
        CREATE TRIGGER linger BEFORE INSERT ON acknowledged FOR EACH ROW EXECUTE FUNCTION linger();
        """, in: url)
      var places: [MailboxPlace] = []
      for mailbox in mailboxes {
        places += try await store.mailbox(mailbox).map { MailboxPlace(mailbox, sequence: $0.sequence) }
      }
      #expect(places.count == 400)
      let (old, new) = (places.filter { $0.sequence <= 200 }, places.filter { $0.sequence > 200 })
      #expect(old.count == 200)
      let removed = try await withThrowingTaskGroup(of: Set<MailboxPlace>.self) { group in
        for (caller, storage) in processes.enumerated() {
          for some in [old, new.reversed(), places.shuffled()] {
            group.addTask { try await storage.remove(caller.isMultiple(of: 2) ? some : some.reversed()) }
          }
        }
        return try await group.reduce(into: []) { $0 += Array($1) }
      }
      #expect(Set(removed).count == removed.count)
      // A removal may have passed over rows whose own removal was undone. A reader would find them, and remove them
      // again.
      let left = try await first.remove(places)
      #expect(Set(removed).union(left) == Set(places))
      #expect(
        try server.sql("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()", in: url) == "0")
      #expect(try server.sql("SELECT count(*) FROM acknowledged", in: url) == "200")
      for storage in processes.dropFirst() { await storage.close() }
    }
  }

  /// Each may have to wait for another's receipt, and nobody waits in a circle.
  @Test func `processes that store the same receipts never deadlock, and store each once`() async throws {
    try await withPostgres { first, server, url in
      let processes = try await [first] + PostgresStorage.connected(2, to: url)
      let (mailbox, senders) = try (Sample.address(1), (2...41).map { try Sample.address($0) })
      // Two messages of one time from each sender: one receipt.
      let sent = (0..<2).map { id in
        senders.map { Sample.envelope(to: mailbox, from: $0, id: id, timestamp: Sample.noon) }
      }
      for envelopes in sent { try await first.append(envelopes) }
      try server.sql(
        """
        CREATE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql AS
          $$ BEGIN PERFORM pg_sleep(0.001); RETURN NEW; END $$;
        CREATE TRIGGER linger BEFORE INSERT ON messages FOR EACH ROW EXECUTE FUNCTION linger();
        """, in: url)
      func fingerprint(of sender: DeviceAddress) -> Fingerprint {
        Fingerprint(high: 7, low: UInt64(sender.account.digits))
      }
      let queued = try await first.pending(in: mailbox, after: 0, limit: 100)
      #expect(queued.count == 80)
      let removals = queued.map { queued in
        let sender = queued.envelope.source
        return MailboxRemoval(
          MailboxPlace(mailbox, sequence: queued.sequence),
          receipt: DueReceipt(to: [sender.device], fingerprint: fingerprint(of: sender)))
      }
      // What clients say themselves.
      let words = senders.map { sender in
        Envelope(
          destination: sender, type: .receipt, source: mailbox, relay: nil, timestamp: Sample.noon, message: nil,
          content: nil, fingerprint: fingerprint(of: sender))
      }
      let removed = try await withThrowingTaskGroup(of: Set<MailboxPlace>.self) { group in
        for (index, storage) in processes.enumerated() {
          let some = index == 0 ? Array(removals[..<40]) : index == 1 ? removals[40...].reversed() : removals.shuffled()
          for part in 0..<2 {
            let half = Array(some.enumerated().lazy.filter { $0.offset % 2 == part }.map(\.element))
            group.addTask { try await storage.remove(half) }
          }
          group.addTask {
            try await storage.append(words.shuffled())
            return []
          }
        }
        return try await group.reduce(into: []) { $0 += Array($1) }
      }
      #expect(Set(removed).count == removed.count)
      // A removal may have passed over rows whose own removal was undone.
      let left = try await first.remove(removals)
      #expect(Set(removed).union(left) == Set(removals.map(\.place)))
      #expect(
        try server.sql("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()", in: url) == "0")
      for (sender, word) in zip(senders, words) {
        #expect(try await first.pending(in: sender, after: 0, limit: 10).map(\.envelope) == [word])
      }
      for storage in processes.dropFirst() { await storage.close() }
    }
  }

  /// A plan holds for a while, also when a backlog grows behind it.
  @Test func `a removal looks each receipt up by its index, though hardly anything waited when it was planned`()
    async throws
  {
    try await withPostgres { storage, server, url in
      let (mailbox, sender) = try (Sample.address(1), Sample.address(2))
      try await storage.append((0..<3).map { Sample.envelope(to: mailbox, from: sender, id: $0) })
      try server.sql("ANALYZE messages", in: url)
      let first = try #require(try await storage.pending(in: mailbox, after: 0, limit: 1).first)
      let receipt = DueReceipt(to: [sender.device], fingerprint: Fingerprint(high: 7, low: 7))
      let place = MailboxPlace(mailbox, sequence: first.sequence)
      #expect(try await storage.remove([MailboxRemoval(place, receipt: receipt)]) == [place])
      let sql = "EXPLAIN EXECUTE remove ('{}', '{}', '{}', '{}', '{}', '{}', '2000-01-01', 1, NULL, 5, '{}')"
      let plan = try await storage.writes.read(PostgresStep(.once(sql)))
      let lines = try plan.rows.map { index in
        var row = plan.cursor(row: index)
        return try row.text()
      }
      #expect(lines.contains { $0.contains("Index Cond") && $0.contains("fingerprint >= ") }, "\(lines)")
      #expect(!lines.contains { $0.contains("Materialize") || $0.contains("Seq Scan") }, "\(lines)")
    }
  }

  /// The days that a mailbox can have messages of are learned from reads that leave something out, too.
  @Test func `old messages are found, whatever a reader held before`() async throws {
    try await withPostgres { storage, server, url in
      let source = try Sample.address(99)
      for daysAgo in [25, 10] { try server.addDay(daysAgo, to: "messages", in: url) }
      for (index, held) in [[0], [0, 1, 2], [2], []].enumerated() {
        let mailbox = try Sample.address(index)
        for (id, daysAgo) in [25, 10, 0].enumerated() {
          try await storage.append([Sample.envelope(to: mailbox, from: source, id: id)])
          try server.sql(
            """
            UPDATE messages SET day = day - \(daysAgo)
            WHERE account = \(mailbox.account.digits) AND sent = \(Sample.noon.millis + Int64(id))
            """, in: url)
        }
        let all = try await storage.pending(in: mailbox, after: 0, limit: 10)
        #expect(all.count == 3)
        // A process that has not read the mailbox yet, and then has.
        let fresh = try await PostgresStorage.connected(to: url)
        for held in [held, [], held, held] {
          let reads = [mailbox, source].map { MailboxRead($0, held: held.map { all[$0].sequence }, limit: 10) }
          let found = try await fresh.waiting(reads)
          #expect(found == [all.indices.filter { !held.contains($0) }.map { all[$0] }, []])
        }
        let places = all.map { MailboxPlace(mailbox, sequence: $0.sequence) }
        #expect(try await fresh.remove([places[1]]) == [places[1]])
        #expect(try await fresh.remove(places) == [places[0], places[2]])
        await fresh.close()
      }
    }
  }
}
