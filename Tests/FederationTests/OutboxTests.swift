import RelayCore
import Storage
import Synchronization
import TestSupport
import Testing

@testable import Federation

/// Messages for a peer that cannot be reached, over real TLS: `beta` holds what is for `alpha`.
@Suite struct OutboxTests {
  @Test func whatWasHeldArrivesInOrderOnceThePeerIsBack() async throws {
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
        try await !site.outbox.mustWait(for: destinations[0], at: site.peer())
      }
      try await site.submit(to: destinations[0], at: 100)
      #expect(site.alpha.intake.calls.last?.submission.timestamp?.millis == 100)
    }
  }

  @Test func whatFollowsAHeldMessageDoesNotOvertakeIt() async throws {
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

  @Test func devicesThatThePeerHasNotConfirmedAreNotGuessed() async throws {
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

  @Test func whatThePeerContradictsIsForgotten() async throws {
    try await withOutbox { site in
      let destination = try number("+14155550200")
      try await site.confirm(destination)
      site.alpha.intake.refuse(with: Problem(.notFound))
      #expect(await site.refusal(to: destination)?.kind == .notFound)
      try await eventually("it is forgotten") { try await site.confirmation(of: destination) == nil }
    }
  }

  @Test func aFullOutboxRefuses() async throws {
    try await withOutbox(bounds: OutboxBounds(messagesMax: 2, bytesMax: 1 << 20, age: .seconds(3600))) { site in
      let destination = try number("+14155550200")
      try await site.confirm(destination)
      try await site.door.close()
      for time: Int64 in 1...2 { try await site.submit(to: destination, at: time) }
      #expect(await site.refusal(to: destination, at: 3)?.kind == .peerUnavailable)
      // What is held already is accepted again.
      #expect(await site.refusal(to: destination, at: 2) == nil)
      #expect(try await site.beta.storage.outboxUsage().map(\.messages) == [2])
    }
  }

  @Test func whatHasWaitedTooLongIsReportedToItsSenderThoughThePeerIsAway() async throws {
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

  @Test func whatThePeerWillNeverTakeIsReportedAndHoldsNothingUp() async throws {
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

  @Test func whatMayStillBeTakenIsPutOffUntilTheOperatorSaysNow() async throws {
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

  @Test func twoProcessesHandOverEachMessageOnce() async throws {
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

  @Test func withoutTheOperatorsWordNothingIsHeld() async throws {
    try await withOutbox(holds: false) { site in
      let destination = try number("+14155550200")
      try await site.submit(to: destination, at: 1)
      try await site.door.close()
      #expect(await site.refusal(to: destination)?.kind == .peerUnavailable)
      #expect(try await site.beta.storage.outboxUsage().isEmpty)
      #expect(try await site.confirmation(of: destination) == nil)
    }
  }

  @Test func theOperatorMayDropWhatIsHeld() async throws {
    try await withOutbox { site in
      let destination = try number("+14155550200")
      try await site.confirm(destination)
      try await site.door.close()
      for time: Int64 in 1...4 { try await site.submit(to: destination, at: time) }
      let sequences = try await site.held().map(\.sequence)
      let drop = OutboxDrop(store: site.beta.storage, intake: site.intake)
      // Not while a process hands over.
      #expect(try await site.beta.storage.acquireLease("outbox alpha", holder: 7, for: .seconds(60)))
      #expect(try await drop.drop(nil, of: name("alpha")) { _ in } == nil)
      try await site.beta.storage.releaseLease("outbox alpha", holder: 7)
      let some = try await drop.drop([sequences[1], 0], of: name("alpha")) { _ in }
      #expect(some == OutboxDrop.Outcome(dropped: 1, unknown: [0]))
      #expect(try await site.held().map(\.sequence) == [sequences[0], sequences[2], sequences[3]])
      let counts = Mutex<[Int]>([])
      let all = try await drop.drop(nil, of: name("alpha")) { count in counts.withLock { $0.append(count) } }
      #expect(all == OutboxDrop.Outcome(dropped: 3))
      #expect(counts.withLock { $0 } == [3])
      #expect(site.intake.undeliverable.compactMap(\.submission.timestamp?.millis) == [2, 1, 3, 4])
      #expect(try await site.held().isEmpty)
    }
  }
}

/// A clock that can be put forward and stopped.
private final class TestTime: Sendable {
  private let state = Mutex<(ahead: Duration, stopped: Timestamp?)>((.zero, nil))

  var clock: WallClock { WallClock { self.now } }
  private var now: Timestamp {
    state.withLock { $0.stopped ?? TestRelay.systemClock.now().adding($0.ahead) }
  }
  func advance(by duration: Duration) { state.withLock { $0.ahead += duration } }
  func stop() {
    let now = now
    state.withLock { $0.stopped = now }
  }
}

/// A listener of a relay that comes and goes, always at the same port.
private actor Door {
  private let relay: TestRelay
  private var running: Task<Void, any Error>?
  private(set) var port = 0

  init(of relay: TestRelay) { self.relay = relay }

  func open() async throws {
    let (ports, found) = AsyncStream.makeStream(of: Int.self)
    let listener = relay.makeListener(port) { found.yield($0) }
    running = Task {
      defer { found.finish() }
      try await listener.run()
    }
    guard let bound = await ports.first(where: { _ in true }) else { throw TestFailure("the door does not open") }
    port = bound
  }

  /// As a process that is killed: connections are closed with it.
  func close() async throws {
    running?.cancel()
    do {
      try await running?.value
    } catch is CancellationError {}
    running = nil
  }
}

private struct OutboxSite: Sendable {
  let alpha: TestRelay
  let beta: TestRelay
  let door: Door
  let time: TestTime
  let outbox: Outbox
  /// Beta's: who wrote what cannot be delivered is told here.
  let intake: RecordingIntake
  let handOvers: HandOverSender
  let bounds: OutboxBounds

  var courier: PeerCourier {
    PeerCourier(registry: beta.registry, transport: beta.transport, handOvers: handOvers, outbox: outbox)
  }

  /// Of another process.
  func anotherOutbox() -> Outbox {
    Outbox(
      store: beta.storage, registry: beta.registry, handOvers: handOvers, intake: intake, bounds: bounds,
      clock: time.clock, logger: beta.log.logger)
  }

  func running(_ body: () async throws -> Void) async throws {
    let running = Task { try await outbox.run() }
    let result: Result<Void, any Error>
    do {
      result = .success(try await body())
    } catch {
      result = .failure(error)
    }
    running.cancel()
    try await running.value
    try result.get()
  }

  func peer() throws -> KnownPeer { try #require(beta.registry.current.byName[name("alpha")]) }
  func held() async throws -> [HeldMessage] { try await beta.storage.held(for: name("alpha"), after: 0, limit: 1000) }

  /// The times of what alpha was handed for `destination`, each as often as it was.
  func arrived(_ destination: AccountNumber) -> [Int64] {
    alpha.intake.calls.filter { $0.submission.destination == destination }.compactMap {
      $0.submission.timestamp?.millis
    }
  }

  func submit(
    to destination: AccountNumber, at time: Int64, devices: [DeviceID] = [.master], registrationID: Int64 = 5
  ) async throws(Problem) {
    let messages = devices.map {
      SubmittedMessage(type: .ciphertext, device: $0, registrationID: registrationID, body: [1, 2, 3], content: nil)
    }
    guard let source = AccountNumber(e164: "+14155550177"), let alpha = RelayName("alpha") else {
      throw Problem(.internalError)
    }
    let submission = Submission(destination: destination, messages: messages, timestamp: Timestamp(millis: time))
    try await courier.submit(submission, from: DeviceAddress(source, .master), to: alpha)
  }

  func refusal(
    to destination: AccountNumber, at time: Int64 = 1, devices: [DeviceID] = [.master], registrationID: Int64 = 5
  ) async -> Problem? {
    do throws(Problem) {
      try await submit(to: destination, at: time, devices: devices, registrationID: registrationID)
      return nil
    } catch {
      return error
    }
  }

  /// Lets the peer accept something for `destination`, and waits until that is noted.
  func confirm(_ destination: AccountNumber) async throws {
    try await submit(to: destination, at: 0)
    try await eventually("the devices are confirmed") { try await confirmation(of: destination) != nil }
  }

  func noteConfirmed(_ destination: AccountNumber) async throws {
    try await beta.storage.confirmDevices(
      [ConfirmedDevice(id: .master, registrationID: 5)], of: destination, at: name("alpha"), now: time.clock.now())
  }

  func confirmation(of destination: AccountNumber) async throws -> [ConfirmedDevice]? {
    try await beta.storage.confirmedDevices(of: destination, at: name("alpha"), since: Timestamp(millis: 0))
  }
}

/// Runs `beta`, which holds messages for `alpha`, and `alpha` behind a door that is open.
private func withOutbox(
  holds: Bool = true, isRunning: Bool = true,
  bounds: OutboxBounds = OutboxBounds(messagesMax: 1000, bytesMax: 1 << 20, age: .seconds(3600)),
  _ body: @escaping @Sendable (OutboxSite) async throws -> Void
) async throws {
  var limits = PeerLimits.patient
  limits.probeInterval = .milliseconds(200)
  try await withPeers(limits: limits) { alpha, beta in
    let door = Door(of: alpha)
    try await door.open()
    let known = try #require(try await beta.storage.peers().first)
    let moved = Peer(
      name: known.name, url: "https://127.0.0.1:\(await door.port)", caCertificate: known.caCertificate,
      state: .active, scopes: known.scopes, added: known.added)
    #expect(try await beta.storage.savePeer(moved))
    #expect(try await beta.storage.setPeerPolicy(PeerPolicy(holdsMessages: holds), of: known.name))
    await beta.registry.refresh()
    let (time, intake) = (TestTime(), RecordingIntake())
    let handOvers = HandOverSender(transport: beta.transport)
    let outbox = Outbox(
      store: beta.storage, registry: beta.registry, handOvers: handOvers, intake: intake, bounds: bounds,
      clock: time.clock, logger: beta.log.logger)
    let site = OutboxSite(
      alpha: alpha, beta: beta, door: door, time: time, outbox: outbox, intake: intake, handOvers: handOvers,
      bounds: bounds)
    if isRunning { try await site.running { try await body(site) } } else { try await body(site) }
    try await door.close()
  }
}
