// A clock that is wrong removes nothing, and what comes meanwhile is kept as long as anything else.

import RelayCore
import TestTags
import Testing

@testable import Storage

@Suite(.tags(.stores)) struct ClockContract {

  @Test(arguments: Backend.allCases)
  func `a clock that is ahead by more than the retention removes nothing, until it is back`(_ backend: Backend)
    async throws
  {
    try await backend.withStore { store in
      let (mailbox, source) = try (Sample.address(1), Sample.address(2))
      let waiting = Sample.envelope(to: mailbox, from: source, id: 1)
      let acknowledged = Sample.envelope(to: mailbox, from: source, id: 2)
      let tag = HandOverTag(bits: 77)
      try await store.storage.append([waiting, acknowledged])
      try await store.acknowledge(acknowledged)
      try await store.storage.record(LedgerRecord(.handedOver, [Sample.crossing(tag)], relay: Sample.relay("beta")))
      try await store.run()
      for jump in [40, 3000] {
        try await store.jump(days: jump)
        for _ in 0..<3 { #expect(try await store.run() == 0) }
        let reading = try await store.storage.clockReading()
        #expect(!reading.time.believes(reading.now))
        #expect(try await store.envelopes(in: mailbox) == [waiting])
        try await store.storage.append([waiting, acknowledged])
        #expect(try await store.envelopes(in: mailbox) == [waiting], "what was taken in is known still")
        #expect(
          try await store.storage.standing(of: acknowledged.timestamp, from: source.account, in: mailbox)
            == .acknowledged)
        #expect(try await store.storage.wasHandedOver(tag, in: LedgerHour(of: Sample.noon)))
        try await store.jump(days: -jump)
        for _ in 0..<3 { try await store.run() }
        let back = try await store.storage.clockReading()
        #expect(back.time.believes(back.now) && back.time.lag(of: back.now) == .zero)
        #expect(try await store.envelopes(in: mailbox) == [waiting])
      }
    }
  }

  @Test(arguments: Backend.allCases, [40, -40])
  func `messages that come while a clock is wrong are kept, ahead and behind`(_ backend: Backend, jump: Int)
    async throws
  {
    try await backend.withStore { store in
      let (mailbox, source) = try (Sample.address(1), Sample.address(2))
      let envelopes = (0..<4).map { Sample.envelope(to: mailbox, from: source, id: $0) }
      let tag = HandOverTag(bits: 77)
      try await store.run()
      try await store.jump(days: jump)
      try await store.run()
      try await store.storage.append([envelopes[0], envelopes[1]])
      try await store.acknowledge(envelopes[1])
      try await store.storage.record(LedgerRecord(.handedOver, [Sample.crossing(tag)], relay: Sample.relay("beta")))
      #expect(try await store.storage.wasHandedOver(tag, in: LedgerHour(of: Sample.noon)))
      try await store.run()
      #expect(try await store.envelopes(in: mailbox) == [envelopes[0]])

      try await store.jump(days: -jump)
      for _ in 0..<5 { try await store.run() }
      try await store.storage.append([envelopes[0], envelopes[2]])
      #expect(try await store.envelopes(in: mailbox) == [envelopes[0], envelopes[2]])
      #expect(try await store.storage.wasHandedOver(tag, in: LedgerHour(of: Sample.noon)))
    }
  }

  @Test(arguments: Backend.allCases)
  func `the operator's word lets removal go on, some days' worth at a time`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let mailbox = try Sample.address(1)
      try await store.storage.append([Sample.envelope(to: mailbox, from: Sample.address(2), id: 1)])
      try await store.run()
      try await store.jump(days: 40)
      #expect(try await store.run() == 0)
      let reading = try await store.storage.acceptClock()
      #expect(reading.time.believes(reading.now) && reading.time.cleared < reading.time.seen)
      var runs = 0
      while try await !store.mailbox(mailbox).isEmpty, runs < 60 {
        try await store.run()
        runs += 1
      }
      // It was 31 days old when it went: not before the 15th run, at two days a run.
      #expect((15...40).contains(runs))
    }
  }

  @Test(arguments: Backend.allCases)
  func `a device that a wrong clock calls inactive keeps its place and its mailbox`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.registerAccounts(2)
      let number = try Sample.number(1)
      let linked = try await store.linkActive(1)
      var seen = DeviceChange()
      seen.lastSeen = .set(try await store.storage.clockReading().now.startOfDay)
      #expect(try await store.storage.updateDevice(linked, seen))
      try await store.storage.append([Sample.envelope(to: linked, from: Sample.address(2), id: 1)])
      try await store.run()
      try await store.jump(days: 40)
      try await store.run()
      let now = try await store.storage.clockReading().now
      let code = VerificationCode(code: Secret("123456"), expires: now.adding(.seconds(600)))
      try await store.storage.setVerificationCode(code, for: number, purpose: .linking)
      let outcome = try await store.storage.linkDevice(
        Sample.link(1), code: Secret("123456"), triesMax: 3, now: now)
      guard case .linked(let id) = outcome else { throw UnexpectedOutcome(what: "\(outcome)") }
      #expect(id != linked.device)
      #expect(try await store.mailbox(linked).count == 1)
    }
  }

  @Test(arguments: Backend.withClock)
  func `a lease that was taken while the clock was ahead is not held until then`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      func acquire(_ holder: Int64) async throws -> Bool {
        try await store.storage.acquireLease("outbox", holder: holder, for: .seconds(30))
      }
      store.clock.advance(.seconds(40 * 86_400))
      let whileAhead = try await acquire(1)
      store.clock.advance(.seconds(-40 * 86_400))
      let (byAnother, byTheFirst) = (try await acquire(2), try await acquire(1))
      #expect(whileAhead && byAnother && !byTheFirst)
    }
  }

  @Test(arguments: Backend.allCases)
  func `several runs at once move the last seen time once`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.run()
      try await store.jump(days: 40)
      _ = try await store.storage.acceptClock()
      let before = try await store.storage.clockReading().time
      try await withThrowingTaskGroup(of: Void.self) { group in
        for _ in 0..<6 { group.addTask { try await store.run() } }
        try await group.waitForAll()
      }
      let after = try await store.storage.clockReading().time
      #expect(after.cleared > before.cleared && after.cleared <= before.cleared.adding(.seconds(6 * 86_400)))
    }
  }

  private struct UnexpectedOutcome: Error { let what: String }
}

extension Store {
  @discardableResult
  fileprivate func run() async throws -> Int { try await storage.maintain(RetentionTerms()) }

  fileprivate func envelopes(in mailbox: DeviceAddress) async throws -> [Envelope] {
    try await self.mailbox(mailbox).map(\.envelope)
  }

  fileprivate func acknowledge(_ envelope: Envelope) async throws {
    let removed = try await storage.acknowledge(
      source: envelope.source.account, timestamp: envelope.timestamp, in: envelope.destination)
    #expect(removed?.envelope == envelope)
  }

  /// Moves the store's clock. PostgreSQL's own stands: all that the store has noted moves the other way.
  fileprivate func jump(days: Int) async throws {
    guard let postgres = storage as? PostgresStorage else { return clock.advance(.seconds(days * 86_400)) }
    _ = try await postgres.write([
      PostgresStep(
        .once(
          """
          DO $$
          DECLARE parent text; held date;
          BEGIN
            FOREACH parent IN ARRAY ARRAY['messages', 'acknowledged'] LOOP
              FOR held IN EXECUTE format('SELECT DISTINCT day - \(days) FROM %I', parent) LOOP
                IF to_regclass(parent || to_char(held, '_YYYYMMDD')) IS NULL THEN
                  EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES FROM (%L) TO (%L)',
                    parent || to_char(held, '_YYYYMMDD'), parent, held, held + 1);
                END IF;
              END LOOP;
              EXECUTE format('UPDATE %I SET day = day - \(days)', parent);
            END LOOP;
            UPDATE crossings SET noted = noted - \(days);
            UPDATE devices SET last_seen = last_seen - \(days) * 86400000::bigint;
            UPDATE store_clock SET seen = seen - \(days) * 86400000::bigint, cleared = cleared - \(days) * 86400000::bigint;
          END $$
          """))
    ])
    postgres.days.forget()
    postgres.judge.learn(try await postgres.clockReading().time)
  }
}
