import RelayCore
import Storage
import TestSupport
import TestTags
import Testing

@testable import Federation

/// The outbox's reaction to a peer's answers and return, and to senders that cannot be told, over real TLS.
@Suite(.tags(.stores)) struct OutboxAnswerTests {
  @Test func `the peer's answers for held messages are noted too`() async throws {
    try await withOutbox(isRunning: false) { site in
      let (gone, there) = (try number("+14155550200"), try number("+14155550201"))
      site.alpha.intake.refuse(with: Problem(.unavailable))
      for destination in [gone, there] {
        try await site.noteConfirmed(destination)
        try await site.submit(to: destination, at: 1)
      }
      try await site.beta.storage.forgetConfirmedDevices(of: there, at: name("alpha"))
      site.alpha.intake.refuse(with: nil)
      site.alpha.intake.refuse(gone, with: Problem(.notFound))
      try await site.running {
        try await eventually("it is forgotten") { try await site.confirmation(of: gone) == nil }
        try await eventually("it is confirmed") { try await site.confirmation(of: there) != nil }
      }
    }
  }

  @Test func `messages wait for a peer that does not believe this relay`() async throws {
    try await withOutbox(isRunning: false) { site in
      let (one, other) = (try number("+14155550200"), try number("+14155550201"))
      for destination in [one, other] { try await site.noteConfirmed(destination) }
      site.alpha.intake.refuse(one, with: Problem(.unauthorized))
      site.alpha.intake.refuse(other, with: Problem(.sourceRefused))
      #expect(await site.refusal(to: one) == nil)
      #expect(await site.refusal(to: other)?.kind == .peerUnavailable)
      #expect(try await site.held().map(\.message.submission.destination) == [one])
    }
  }

  @Test func `pauses end with the peer's return`() async throws {
    try await withOutbox { site in
      let destinations = try (0..<4).map { try number("+1415555020\($0)") }
      for destination in destinations { try await site.confirm(destination) }
      site.time.stop()
      site.alpha.intake.refuse(with: Problem(.unavailable, retryAfter: .seconds(200)))
      try await site.submit(to: destinations[0], at: 1)
      try await eventually("it was put off") { try await site.held().first?.attempts == 1 }
      try await site.door.close()
      for destination in destinations[1...] { try await site.submit(to: destination, at: 1) }
      try await eventually("the peer is away") { try !site.peer().peer.condition.isReachable }
      site.alpha.intake.refuse(with: nil)
      try await site.door.open()
      // The clock of the pauses stands still.
      try await eventually("nothing is held") { try await site.beta.storage.outboxUsage().isEmpty }
      #expect(site.arrived(destinations[0]).last == 1)
    }
  }

  /// The peer was in trouble for a while, and its answer about the devices was forgotten: who writes now is refused,
  /// and what waits is handed over soon and not in minutes.
  @Test func `messages that were put off are tried sooner when clients are refused for them`() async throws {
    try await withOutbox { site in
      let (destination, other) = (try number("+14155550200"), try number("+14155550201"))
      for number in [destination, other] { try await site.confirm(number) }
      site.time.stop()
      site.alpha.intake.refuse(with: Problem(.unavailable, retryAfter: .seconds(200)))
      for number in [destination, other] { try await site.submit(to: number, at: 1) }
      try await eventually("both were put off") { try await site.held().map(\.attempts) == [1, 1] }
      try await site.beta.storage.forgetConfirmedDevices(of: destination, at: name("alpha"))
      site.alpha.intake.refuse(with: nil)

      #expect(await site.refusal(to: destination, at: 2)?.kind == .peerUnavailable)
      try await eventually("it is handed over") { site.arrived(destination).last == 1 }
      try await eventually("the other, for which nobody asked, waits on") {
        try await site.held().map(\.message.submission.destination) == [other]
      }
      try await eventually("the next one goes at once") {
        do {
          try await site.submit(to: destination, at: 2)
          return true
        } catch { return false }
      }
      #expect(site.arrived(destination).last == 2)
    }
  }

  @Test func `a sender with a full mailbox is told later`() async throws {
    try await withOutbox(isRunning: false) { site in
      let destination = try number("+14155550200")
      try await site.noteConfirmed(destination)
      site.alpha.intake.refuse(with: Problem(.unavailable))
      try await site.submit(to: destination, at: 1)
      site.alpha.intake.refuse(with: Problem(.notFound))
      site.intake.hasRoom(false)
      try await site.running {
        let held = try await eventually("it was put off") { try await site.held().first { $0.attempts == 1 } }
        #expect(held.notBefore > site.time.clock.now().adding(.seconds(100)))
        site.intake.hasRoom(true)
        _ = try await site.beta.storage.makeDue(for: name("alpha"), now: site.time.clock.now())
        try await eventually("nothing is held") { try await site.beta.storage.outboxUsage().isEmpty }
        #expect(site.intake.undeliverable.count == 1)
      }
    }
  }

  @Test func `if a sender's mailbox stays full for a day, it is told nothing`() async throws {
    try await withOutbox(isRunning: false) { site in
      let destination = try number("+14155550200")
      try await site.noteConfirmed(destination)
      try await site.door.close()
      try await site.submit(to: destination, at: 1)
      site.intake.hasRoom(false)
      let removal = OutboxRemoval(
        store: site.beta.storage, intake: site.intake, metrics: OutboxMetrics(), ledger: site.beta.ledger)
      let policy = OutboxPolicy(age: site.bounds.age)
      let held = try await site.held()
      let due = try #require(held.first).accepted.adding(site.bounds.age)
      let early = try await removal.giveUp(
        held, because: .expired, by: policy, at: due.adding(.milliseconds(86_399_999)))
      #expect(early.untold == held && early.told + early.dropped == 0)
      #expect(try await site.held() == held)
      site.time.advance(by: site.bounds.age + .seconds(86_400))
      try await site.running {
        try await eventually("nothing is held") { try await site.beta.storage.outboxUsage().isEmpty }
      }
      #expect(site.intake.undeliverable.isEmpty)
      #expect(site.beta.log.contains("had no room for the word of it"))
    }
  }

  @Test func `an operator's word ends a pause`() throws {
    let alpha = try name("alpha")
    func usage(retried: Int64) -> [OutboxUsage] {
      let never = Timestamp(millis: 0)
      return [
        OutboxUsage(
          relay: alpha, messages: 1, bytes: 1, oldest: never, nextAttempt: never, retried: Timestamp(millis: retried))
      ]
    }
    let start = ContinuousClock.now
    var pauses = OutboxPauses()
    pauses.readingEnded(usage(retried: 0), at: start)
    pauses.begin(of: alpha, until: start + .seconds(30))
    pauses.readingEnded(usage(retried: 0), at: start + .seconds(29))
    #expect(pauses.isPaused(alpha))
    pauses.readingEnded(usage(retried: 7), at: start + .seconds(29))
    #expect(!pauses.isPaused(alpha))
    pauses.begin(of: alpha, until: start + .seconds(30))
    pauses.readingEnded(usage(retried: 7), at: start + .seconds(30))
    #expect(!pauses.isPaused(alpha))
  }
}
