import RelayCore
import Storage
import Synchronization
import TestSupport
import TestTags
import Testing

@testable import Federation

/// Messages for a peer that cannot be reached, over real TLS: `beta` holds what is for `alpha`.
@Suite(.tags(.stores)) struct OutboxTests {
  @Test func `held messages arrive in order once the peer is back`() async throws {
    try await withOutbox { site in
      let destinations = try (0..<3).map { try number("+1415555020\($0)") }
      for destination in destinations { try await site.confirm(destination) }
      let before = site.alpha.intake.calls.count
      try await site.door.close()
      // One after the other, as a sender would: each is accepted.
      for time: Int64 in 1...42 { try await site.submit(to: destinations[Int(time) % 3], at: time) }
      #expect(try await site.beta.storage.outboxUsage().map(\.messages) == [42])
      try await site.door.open()
      try await eventually("all have arrived") { site.alpha.intake.calls.count == before + 42 }
      try await eventually("nothing is held") { try await site.beta.storage.outboxUsage().isEmpty }
      for destination in destinations {
        let times = site.arrived(destination)
        #expect(times == times.sorted() && times.count == 14)
      }
      #expect(site.intake.undeliverable.isEmpty)
      // And what follows goes straight there.
      try await eventually("the outbox was seen empty") {
        try await site.outbox.mustWait([destinations[0]], at: site.peer()).isEmpty
      }
      try await site.submit(to: destinations[0], at: 100)
      #expect(site.alpha.intake.calls.last?.submission.timestamp?.millis == 100)
    }
  }

  @Test func `a message after a held one does not overtake it`() async throws {
    try await withOutbox(isRunning: false) { site in
      let (one, other) = (try number("+14155550200"), try number("+14155550201"))
      for destination in [one, other] { try await site.noteConfirmed(destination) }
      site.alpha.intake.refuse(with: Problem(.unavailable))
      try await site.submit(to: one, at: 1)
      site.alpha.intake.refuse(with: nil)
      let before = site.alpha.intake.calls.count
      try await site.submit(to: one, at: 2)
      #expect(site.alpha.intake.calls.count == before)
      try await site.submit(to: other, at: 3)
      #expect(site.arrived(other) == [3])
      try await site.running {
        try await eventually("both have arrived") { site.arrived(one).suffix(2) == [1, 2] }
      }
    }
  }

  @Test func `what was held before holding was switched off is not overtaken`() async throws {
    try await withOutbox(isRunning: false) { site in
      let (one, other) = (try number("+14155550200"), try number("+14155550201"))
      try await site.noteConfirmed(one)
      site.alpha.intake.refuse(with: Problem(.unavailable))
      try await site.submit(to: one, at: 1)
      site.alpha.intake.refuse(with: nil)
      #expect(try await site.beta.storage.changePeerPolicy(PeerPolicyChange(holdsMessages: false), of: name("alpha")))
      await site.beta.registry.refresh()
      let before = site.arrived(one)
      let refusal = await site.refusal(to: one, at: 2)
      #expect(refusal?.kind.status == 503 && refusal?.retryAfter != nil && site.arrived(one) == before)
      try await site.submit(to: other, at: 3)
      #expect(site.arrived(other) == [3])
      try await site.running {
        try await eventually("the held one has arrived, and the next goes") {
          await site.refusal(to: one, at: 2) == nil
        }
      }
      #expect(site.arrived(one).suffix(2) == [1, 2])
    }
  }

  @Test func `devices that the peer has not confirmed are not guessed`() async throws {
    try await withOutbox { site in
      let (known, unknown) = (try number("+14155550200"), try number("+14155550201"))
      try await site.confirm(known)
      try await site.door.close()
      #expect(await site.refusal(to: unknown)?.kind == .peerUnavailable)
      #expect(await site.refusal(to: unknown)?.retryAfter != nil)
      let two = try #require(DeviceID(2))
      #expect(await site.refusal(to: known, devices: [.master, two]) == .mismatched(missing: [], extra: [two]))
      #expect(await site.refusal(to: known, registrationID: 6) == .stale([.master]))
      #expect(await site.refusal(to: known) == nil)
      // A day later the peer's word counts no more.
      site.time.advance(by: .seconds(86_401))
      #expect(await site.refusal(to: known)?.kind == .peerUnavailable)
    }
  }

  @Test func `holding helps even if it is switched on while the peer is already away`() async throws {
    try await withOutbox(holds: false) { site in
      let (old, fresh) = (try number("+14155550200"), try number("+14155550201"))
      try await site.confirm(old)
      // Written once a day: what was confirmed since is written when it is needed.
      site.time.advance(by: .seconds(80_000))
      try await site.submit(to: old, at: 1)
      try await site.confirm(fresh)
      site.time.advance(by: .seconds(10_000))
      try await site.door.close()
      #expect(await site.refusal(to: fresh, at: 2)?.kind == .peerUnavailable, "nothing is held yet")
      #expect(try await site.beta.storage.changePeerPolicy(PeerPolicyChange(holdsMessages: true), of: name("alpha")))
      await site.beta.registry.refresh()
      #expect(await site.refusal(to: fresh, at: 2) == nil)
      try await eventually("the older conversation is written down anew") {
        await site.refusal(to: old, at: 2) == nil
      }
      let before = site.alpha.intake.calls.count
      try await site.door.open()
      try await eventually("both have arrived") { site.alpha.intake.calls.count == before + 2 }
    }
  }

  @Test func `a list that the peer contradicts is forgotten, with or without holding`() async throws {
    try await withOutbox(holds: false) { site in
      let destination = try number("+14155550200")
      try await site.confirm(destination)
      site.alpha.intake.refuse(with: Problem(.notFound))
      #expect(await site.refusal(to: destination)?.kind == .notFound)
      try await eventually("it is forgotten") { try await site.confirmation(of: destination) == nil }
    }
  }

  @Test func `a list of devices that the peer contradicts is forgotten`() async throws {
    try await withOutbox { site in
      let destination = try number("+14155550200")
      try await site.confirm(destination)
      site.alpha.intake.refuse(with: Problem(.notFound))
      #expect(await site.refusal(to: destination)?.kind == .notFound)
      try await eventually("it is forgotten") { try await site.confirmation(of: destination) == nil }
    }
  }

  @Test func `a full outbox refuses messages`() async throws {
    try await withOutbox(bounds: OutboxBounds(messagesMax: 2, bytesMax: 1 << 20, age: .seconds(3600))) { site in
      let destination = try number("+14155550200")
      try await site.confirm(destination)
      try await site.door.close()
      for time: Int64 in 1...2 { try await site.submit(to: destination, at: time) }
      #expect(await site.refusal(to: destination, at: 3)?.kind == .peerUnavailable)
      // A message that is held already is accepted again.
      #expect(await site.refusal(to: destination, at: 2) == nil)
      #expect(try await site.beta.storage.outboxUsage().map(\.messages) == [2])
    }
  }

  @Test func `a message that waited too long is reported to its sender, even while the peer is away`() async throws {
    try await withOutbox { site in
      let destination = try number("+14155550200")
      try await site.confirm(destination)
      try await site.door.close()
      for time: Int64 in 1...3 { try await site.submit(to: destination, at: time) }
      #expect(try await site.beta.storage.setPeerState(.suspended, of: name("alpha")))
      site.time.advance(by: site.bounds.age)
      try await eventually("nothing is held") { try await site.beta.storage.outboxUsage().isEmpty }
      #expect(site.intake.undeliverable.compactMap(\.submission.timestamp?.millis) == [1, 2, 3])
      #expect(
        site.intake.undeliverable.allSatisfy { $0.relay.text == "alpha" && $0.submission.destination == destination })
    }
  }

  @Test func `a message that the peer will never take is reported, and holds nothing up`() async throws {
    try await withOutbox { site in
      let (gone, there) = (try number("+14155550200"), try number("+14155550201"))
      for destination in [gone, there] { try await site.confirm(destination) }
      try await site.door.close()
      for time: Int64 in 1...2 {
        for destination in [gone, there] { try await site.submit(to: destination, at: time) }
      }
      site.alpha.intake.refuse(gone, with: Problem(.notFound))
      try await site.door.open()
      try await eventually("nothing is held") { try await site.beta.storage.outboxUsage().isEmpty }
      #expect(site.arrived(there).suffix(2) == [1, 2])
      #expect(site.intake.undeliverable.compactMap(\.submission.timestamp?.millis) == [1, 2])
      #expect(site.intake.undeliverable.allSatisfy { $0.submission.destination == gone })
    }
  }

  @Test func `a message that may still be taken is put off until the operator says now`() async throws {
    try await withOutbox { site in
      let destination = try number("+14155550200")
      try await site.confirm(destination)
      site.time.stop()
      site.alpha.intake.refuse(with: Problem(.unavailable, retryAfter: .seconds(7)))
      try await site.submit(to: destination, at: 1)
      let held = try await eventually("it was tried again") {
        try await site.held().first { $0.attempts == 1 }
      }
      #expect(held.notBefore == site.time.clock.now().adding(.seconds(7)))
      site.alpha.intake.refuse(with: nil)
      #expect(try await site.beta.storage.makeDue(for: name("alpha"), now: site.time.clock.now()) == 1)
      try await eventually("nothing is held") { try await site.beta.storage.outboxUsage().isEmpty }
      #expect(site.intake.undeliverable.isEmpty)
    }
  }

  @Test func `two processes hand over each message once`() async throws {
    try await withOutbox { site in
      let destinations = try (0..<5).map { try number("+1415555020\($0)") }
      for destination in destinations { try await site.confirm(destination) }
      let before = site.alpha.intake.calls.count
      try await site.door.close()
      for time: Int64 in 1...100 { try await site.submit(to: destinations[Int(time) % 5], at: time) }
      let other = Task { try await site.anotherOutbox().run() }
      try await site.door.open()
      try await eventually("nothing is held") { try await site.beta.storage.outboxUsage().isEmpty }
      other.cancel()
      try await other.value
      #expect(site.alpha.intake.calls.count == before + 100)
    }
  }

  @Test func `without the operator's setting nothing is held`() async throws {
    try await withOutbox(holds: false) { site in
      let destination = try number("+14155550200")
      try await site.submit(to: destination, at: 1)
      try await site.door.close()
      #expect(await site.refusal(to: destination)?.kind == .peerUnavailable)
      #expect(try await site.beta.storage.outboxUsage().isEmpty)
    }
  }

  /// Takes the turn at what waits for alpha, as soon as no drain has it.
  private func holdLease(of relay: TestRelay) async throws {
    try await eventually("nobody hands over") {
      try await relay.storage.acquireLease("outbox alpha", holder: 7, for: .seconds(60))
    }
  }

  @Test func `the operator may drop held messages`() async throws {
    try await withOutbox { site in
      let destination = try number("+14155550200")
      try await site.confirm(destination)
      try await site.door.close()
      for time: Int64 in 1...4 { try await site.submit(to: destination, at: time) }
      let sequences = try await site.held().map(\.sequence)
      let drop = OutboxDrop(store: site.beta.storage, intake: site.intake, ledger: site.beta.ledger)
      // Not while a process hands over.
      try await holdLease(of: site.beta)
      #expect(try await drop.drop(nil, of: name("alpha")) { _ in } == nil)
      try await site.beta.storage.releaseLease("outbox alpha", holder: 7)
      // The drain takes its own turn now and then.
      let some = try await eventually("nobody hands over") {
        try await drop.drop([sequences[1], 0], of: name("alpha")) { _ in }
      }
      #expect(some == OutboxDrop.Outcome(dropped: 1, unknown: [0]))
      #expect(try await site.held().map(\.sequence) == [sequences[0], sequences[2], sequences[3]])
      let counts = Mutex<[Int]>([])
      let all = try await eventually("nobody hands over") {
        try await drop.drop(nil, of: name("alpha")) { count in counts.withLock { $0.append(count) } }
      }
      #expect(all == OutboxDrop.Outcome(dropped: 3))
      #expect(counts.withLock { $0 } == [3])
      #expect(site.intake.undeliverable.compactMap(\.submission.timestamp?.millis) == [2, 1, 3, 4])
      #expect(try await site.held().isEmpty)
    }
  }
}

extension OutboxTests {
  @Test func `a drop that loses the outbox halfway does not succeed`() async throws {
    try await withOutbox(isRunning: false) { site in
      let destination = try number("+14155550200")
      try await site.noteConfirmed(destination)
      // More than a page.
      try await site.hold(for: destination, at: 1...Int64(OutboxDrain.pageMax + 2))
      let (store, lease) = (site.beta.storage, "outbox alpha")
      let intake = SlowIntake(site.intake) {
        try await store.releaseLease(lease, holder: 7)
        _ = try await store.acquireLease(lease, holder: 8, for: .seconds(60))
      }
      let drop = OutboxDrop(store: store, intake: intake, ledger: site.beta.ledger, holder: 7)
      let problem = await refusal(of: drop, try name("alpha"))
      #expect(problem?.kind == .unavailable && problem?.reason != nil)
      #expect(try await site.held().count >= 2)
      // Repeating it goes on.
      try await store.releaseLease(lease, holder: 8)
      #expect(try await drop.drop(nil, of: name("alpha")) { _ in } != nil)
      #expect(try await site.held().isEmpty)
    }
  }

  private func refusal(of drop: OutboxDrop, _ relay: RelayName) async -> Problem? {
    do throws(Problem) {
      _ = try await drop.drop(nil, of: relay) { _ in }
      return nil
    } catch {
      return error
    }
  }
}

/// At the first word of what cannot be delivered runs `meanwhile`, and answers when it is cancelled.
private final class SlowIntake: Intake {
  private let intake: RecordingIntake
  private let meanwhile: @Sendable () async throws -> Void
  private let isFirst = Mutex(true)

  init(_ intake: RecordingIntake, _ meanwhile: @escaping @Sendable () async throws -> Void) {
    self.intake = intake
    self.meanwhile = meanwhile
  }

  func accept(
    _ submission: Submission, marks: [CrossingMark], from origin: Origin
  ) async throws(Problem) -> Acceptance {
    try await intake.accept(submission, marks: marks, from: origin)
  }
  func acceptReceipt(
    for timestamp: Timestamp, mark: CrossingMark?, to destination: AccountNumber, from origin: Origin
  ) async throws(Problem) {
    try await intake.acceptReceipt(for: timestamp, mark: mark, to: destination, from: origin)
  }
  func reportUndeliverable(_ message: PeerSubmission) async throws(Problem) -> Bool {
    let isFirst = isFirst.withLock { isFirst in
      defer { isFirst = false }
      return isFirst
    }
    if isFirst {
      do { try await meanwhile() } catch { throw Problem(.internalError) }
      while !Task.isCancelled {
        try? await Task.sleep(for: .milliseconds(10))  // Throws when cancelled, which the condition sees.
      }
    }
    return try await intake.reportUndeliverable(message)
  }
}
