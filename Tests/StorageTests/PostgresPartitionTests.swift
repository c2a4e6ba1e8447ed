// The partitions of messages on a server: retention that changes from start to start, and clocks that were wrong.

import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Storage

@Suite(.tags(.stores)) struct PostgresPartitionTests {
  private static func days(_ count: Int) -> Duration { .seconds(count * 86_400) }

  /// First day and the day behind the last, relative to today; ascending.
  private static func ranges(in url: String, _ server: PostgresServer) throws -> [Range<Int>] {
    let bounds = try server.sql(
      """
      SELECT (b.d[1]::date - (now() AT TIME ZONE 'UTC')::date) || ' ' || (b.d[2]::date - (now() AT TIME ZONE 'UTC')::date)
      FROM pg_inherits JOIN pg_class AS c ON c.oid = inhrelid
      CROSS JOIN LATERAL (
        SELECT regexp_match(pg_get_expr(c.relpartbound, c.oid), 'FROM \\(''([^'']+)''\\) TO \\(''([^'']+)''\\)')
      ) AS b (d)
      WHERE inhparent = 'messages'::regclass
      """, in: url)
    let numbers = bounds.split(separator: "\n").map { $0.split(separator: " ").compactMap { Int($0) } }
    return numbers.map { $0[0]..<$0[1] }.sorted { $0.lowerBound < $1.lowerBound }
  }

  @Test func `a retention of a year takes wide partitions, and a week takes days again`() async throws {
    try await withPostgres { storage, server, url in
      let (mailbox, source) = try (Sample.address(1), Sample.address(2))
      func arrive(_ id: Int) async throws {
        try await storage.append([Sample.envelope(to: mailbox, from: source, id: id)])
      }
      // The partitions that a week's retention left, with a message of each day.
      for daysAgo in (1...7).reversed() {
        try server.addDay(daysAgo, to: "messages", in: url)
        try await arrive(daysAgo)
        try server.sql(
          "UPDATE messages SET day = day - \(daysAgo) WHERE day = (now() AT TIME ZONE 'UTC')::date", in: url)
      }
      #expect(try await storage.maintain(RetentionTerms(messages: Self.days(7))) == 0)
      let narrow = try Self.ranges(in: url, server)
      #expect(narrow.map(\.count) == Array(repeating: 1, count: 9))

      // Tomorrow and the day after come: the store's days go back by three.
      try Self.pass(3, in: url, server)
      #expect(try await storage.maintain(RetentionTerms(messages: Self.days(365))) == 0)
      let wide = try Self.ranges(in: url, server)
      #expect(wide.count == narrow.count + 1 && wide.last?.count == 13)
      try await arrive(100)
      #expect(try await storage.pending(in: mailbox, after: 0, limit: 100).count == 8)
      for (one, next) in zip(wide, wide.dropFirst()) { #expect(one.upperBound <= next.lowerBound) }

      // Back to a week: what is past it goes two days a run, and what is not stays.
      let old = wide.filter { $0.upperBound <= -7 }.count
      #expect(old == 3)
      #expect(try await storage.maintain(RetentionTerms(messages: Self.days(7))) == 2)
      #expect(try await storage.maintain(RetentionTerms(messages: Self.days(7))) == 1)
      #expect(try await storage.maintain(RetentionTerms(messages: Self.days(7))) == 0)
      #expect(try await storage.pending(in: mailbox, after: 0, limit: 100).count == 5)
    }
  }

  @Test func `partitions that a clock ahead left behind go when they are empty`() async throws {
    try await withPostgres { storage, server, url in
      _ = try await storage.maintain(RetentionTerms(messages: Self.days(30)))
      for daysAhead in [40, 41] { try server.addDay(-daysAhead, to: "messages", in: url) }
      let (mailbox, source) = try (Sample.address(1), Sample.address(2))
      try await storage.append([Sample.envelope(to: mailbox, from: source, id: 1)])
      try server.sql("UPDATE messages SET day = day + 40", in: url)
      #expect(try await storage.maintain(RetentionTerms(messages: Self.days(30))) == 0)
      #expect(try server.days(of: "messages", in: url) == [0, 1, 40])
      #expect(try await storage.pending(in: mailbox, after: 0, limit: 10).count == 1)
    }
  }

  @Test func `facts learned of a mailbox while the clock is ahead hide nothing later`() async throws {
    try await withPostgres { storage, server, url in
      let mailbox = try Sample.address(1)
      _ = try await storage.maintain(RetentionTerms(messages: Self.days(30)))
      try server.sql("UPDATE store_clock SET seen = seen - 40 * 86400000::bigint", in: url)
      _ = try await storage.maintain(RetentionTerms(messages: Self.days(30)))
      #expect(try await storage.pending(in: mailbox, after: 0, limit: 10).isEmpty)
      let seen = try #require(storage.seenDay)
      #expect(
        storage.days.first(of: mailbox).day <= seen, "messages arrive from that day on when the clock is right again")
    }
  }

  /// As behind a clock that jumped beyond the days that maintenance has made.
  @Test func `a removal makes the day that is missing`() async throws {
    try await withPostgres { storage, server, url in
      let (mailbox, source) = try (Sample.address(1), Sample.address(2))
      try await storage.append([Sample.envelope(to: mailbox, from: source, id: 0)])
      try server.sql(
        """
        DO $$ DECLARE part regclass; BEGIN
          FOR part IN SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = 'acknowledged'::regclass
          LOOP EXECUTE format('DROP TABLE %s', part); END LOOP;
        END $$
        """, in: url)
      let waiting = try await storage.pending(in: mailbox, after: 0, limit: 10)
      let place = MailboxPlace(mailbox, sequence: try #require(waiting.first).sequence)
      #expect(try await storage.remove([MailboxRemoval(place, receipt: nil)]) == [place])
      #expect(try server.sql("SELECT count(*) FROM acknowledged", in: url) == "1")
    }
  }

  @Test func `doctor knows the room for locks`() async throws {
    try await withPostgres { storage, server, url in
      let few = try await storage.diagnose().locks
      #expect(few.partitions == 4 && few.perStatement > few.partitions * 3 && few.sessions >= 1 && !few.areScarce)
      #expect(few.room == few.perTransaction * few.transactions)
      for daysAgo in 1...365 { try server.addDay(daysAgo, to: "messages", in: url) }
      let many = try await storage.diagnose().locks
      #expect(many.partitions == 369 && many.perStatement > 369 * 3)
      let scarce = PostgresDiagnosis.Locks(
        perTransaction: 64, transactions: 100, partitions: many.partitions, perStatement: many.perStatement,
        sessions: 12)
      #expect(scarce.areScarce && scarce.perTransactionNeeded > 64)
      let mended = PostgresDiagnosis.Locks(
        perTransaction: scarce.perTransactionNeeded, transactions: 100, partitions: many.partitions,
        perStatement: many.perStatement, sessions: 12)
      #expect(!mended.areScarce)
    }
  }

  /// Moves all that the store has back by `days`, as if they had passed.
  private static func pass(_ days: Int, in url: String, _ server: PostgresServer) throws {
    try server.sql(
      """
      DO $$
      DECLARE part record; old date;
      BEGIN
        CREATE TEMP TABLE kept AS SELECT * FROM messages;
        FOR part IN
          SELECT c.relname, (regexp_match(pg_get_expr(c.relpartbound, c.oid), 'FROM \\(''([^'']+)''\\)'))[1]::date AS day
          FROM pg_inherits JOIN pg_class AS c ON c.oid = inhrelid WHERE inhparent = 'messages'::regclass
        LOOP EXECUTE format('DROP TABLE %I', part.relname); END LOOP;
        FOR old IN SELECT (now() AT TIME ZONE 'UTC')::date - 7 - \(days) + i FROM generate_series(0, 8) AS i LOOP
          EXECUTE format('CREATE TABLE %I PARTITION OF messages FOR VALUES FROM (%L) TO (%L)',
            'messages' || to_char(old, '_YYYYMMDD'), old, old + 1);
        END LOOP;
        UPDATE kept SET day = day - \(days);
        INSERT INTO messages SELECT * FROM kept;
        DROP TABLE kept;
      END $$
      """, in: url)
  }
}
