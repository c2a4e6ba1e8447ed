// Two operators, one of which holds messages for the other, and what a test wants to do to them.

import RelayCore
import Storage
import Synchronization
import TestSupport
import Testing

@testable import Federation

/// A clock that can be put forward and stopped.
final class TestTime: Sendable {
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
actor Door {
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

struct OutboxSite: Sendable {
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
    PeerCourier(registry: beta.registry, handOvers: handOvers)
  }

  /// The outbox of another process.
  func anotherOutbox() -> Outbox {
    Outbox(
      store: beta.storage, registry: beta.registry, requests: handOvers.requests, intake: intake, bounds: bounds,
      clock: JudgedClock(unjudged: time.clock), logger: beta.log.logger)
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

  /// Holds one message for each of `times`, as if the peer had been away.
  func hold(for destination: AccountNumber, at times: ClosedRange<Int64>) async throws {
    let body = SubmittedMessage(type: .ciphertext, device: .master, registrationID: 5, body: [1, 2, 3], content: nil)
    let source = DeviceAddress(try number("+14155550177"), .master)
    let messages = try times.map { time in
      PeerSubmission(
        relay: try name("alpha"), source: source,
        submission: Submission(destination: destination, messages: [body], timestamp: Timestamp(millis: time)))
    }
    #expect(await outbox.hold(messages, for: try peer()).allSatisfy { $0 == nil })
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
func withOutbox(
  holds: Bool = true, isRunning: Bool = true, patience: Duration = PeerLimits.patient.patience,
  requestTimeout: Duration = PeerLimits.patient.requestTimeout,
  bounds: OutboxBounds = OutboxBounds(messagesMax: 2000, bytesMax: 1 << 20, age: .seconds(3600)),
  _ body: @escaping @Sendable (OutboxSite) async throws -> Void
) async throws {
  var limits = PeerLimits.patient
  limits.probeInterval = .milliseconds(200)
  limits.patience = patience
  limits.requestTimeout = requestTimeout
  try await withPeers(limits: limits) { alpha, beta in
    let door = Door(of: alpha)
    try await door.open()
    let known = try #require(try await beta.storage.peers().first)
    let moved = Peer(
      name: known.name, url: "https://127.0.0.1:\(await door.port)", caCertificate: known.caCertificate,
      state: .active, scopes: known.scopes, added: known.added)
    #expect(try await beta.storage.savePeer(moved))
    #expect(try await beta.storage.changePeerPolicy(PeerPolicyChange(holdsMessages: holds), of: known.name))
    await beta.registry.refresh()
    let (time, intake) = (TestTime(), RecordingIntake())
    let requests = beta.handOvers.requests
    let outbox = Outbox(
      store: beta.storage, registry: beta.registry, requests: requests, intake: intake, bounds: bounds,
      clock: JudgedClock(unjudged: time.clock), logger: beta.log.logger)
    let site = OutboxSite(
      alpha: alpha, beta: beta, door: door, time: time, outbox: outbox, intake: intake,
      handOvers: HandOverSender(requests, outbox: outbox),
      bounds: bounds)
    if isRunning { try await site.running { try await body(site) } } else { try await body(site) }
    try await door.close()
  }
}
