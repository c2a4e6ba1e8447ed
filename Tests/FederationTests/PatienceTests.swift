import RelayCore
import Storage
import TestSupport
import TestTags
import Testing

@testable import Federation

/// A peer that keeps us waiting: messages that may be held wait no longer than patience lasts (docs/federation.md, "A
/// peer that keeps us waiting").
@Suite(.tags(.stores)) struct PatienceTests {
  /// Longer than the machine may stand still: what these tests keep waiting must not time out.
  private static let requestTimeout = Duration.seconds(600)

  @Test func `messages without an answer are held in order, and arrive in order`() async throws {
    try await withOutbox(isRunning: false, patience: .milliseconds(200), requestTimeout: Self.requestTimeout) { site in
      let destinations = try (0..<2).map { try number("+1415555020\($0)") }
      for destination in destinations { try await site.noteConfirmed(destination) }
      site.alpha.intake.hold(true)
      // Accepted, though the peer has said nothing yet.
      try await site.submit(to: destinations[0], at: 1)
      #expect(site.handOvers.isKeptWaiting(by: try name("alpha")))
      // The following messages are not even sent.
      for time: Int64 in 2...9 { try await site.submit(to: destinations[Int(time) % 2], at: time) }
      try await eventually("the first has come") { site.alpha.intake.calls.count == 1 }
      #expect(try await site.held().compactMap(\.message.submission.timestamp?.millis) == Array(1...9))
      site.alpha.intake.hold(false)
      let alpha = try name("alpha")
      try await eventually("the answer has come") { !site.handOvers.isKeptWaiting(by: alpha) }
      // Held messages are not overtaken, and the first is handed over again.
      try await site.submit(to: destinations[0], at: 10)
      #expect(site.alpha.intake.calls.count == 1)
      try await site.running {
        try await eventually("nothing is held") { try await site.beta.storage.outboxUsage().isEmpty }
      }
      #expect(site.arrived(destinations[0]) == [1, 1, 2, 4, 6, 8, 10])
      #expect(site.arrived(destinations[1]) == [3, 5, 7, 9])
    }
  }

  @Test func `messages that gather behind a request without answer are held behind it`() async throws {
    try await withOutbox(isRunning: false, patience: .seconds(2), requestTimeout: Self.requestTimeout) { site in
      let destination = try number("+14155550200")
      try await site.noteConfirmed(destination)
      site.alpha.intake.hold(true)
      try await withThrowingTaskGroup(of: Void.self) { group in
        group.addTask { try await site.submit(to: destination, at: 1) }
        try await eventually("the first is under way, or held") {
          let held = try await site.held()
          return site.alpha.intake.calls.count == 1 || !held.isEmpty
        }
        for time: Int64 in 2...20 { group.addTask { try await site.submit(to: destination, at: time) } }
        try await group.waitForAll()
      }
      let times = try await site.held().compactMap(\.message.submission.timestamp?.millis)
      #expect(times.first == 1 && times.sorted() == Array(1...20))
      try await eventually("the first has come") { site.alpha.intake.calls.count == 1 }
      site.alpha.intake.hold(false)
      try await site.running {
        try await eventually("nothing is held") { try await site.beta.storage.outboxUsage().isEmpty }
      }
      // As accepted; what the peer had been asked to take comes twice, and its mailboxes know it.
      let arrived = site.arrived(destination).suffix(times.count)
      #expect(Array(arrived) == times)
    }
  }

  @Test func `a receipt is not held, and does not wait behind silence`() async throws {
    try await withOutbox(isRunning: false, patience: .milliseconds(200), requestTimeout: Self.requestTimeout) { site in
      let (destination, alpha) = (try number("+14155550200"), try name("alpha"))
      try await site.noteConfirmed(destination)
      site.alpha.intake.hold(true)
      try await site.submit(to: destination, at: 1)
      let refused = await receiptProblem(site, to: destination, at: alpha)
      #expect(refused?.kind == .peerUnavailable)
      site.alpha.intake.hold(false)
      try await eventually("the answer has come") { !site.handOvers.isKeptWaiting(by: alpha) }
      let taken = await receiptProblem(site, to: destination, at: alpha)
      #expect(taken == nil)
    }
  }

  @Test func `messages that cannot be held wait for the late answer`() async throws {
    try await withOutbox(isRunning: false, patience: .milliseconds(200), requestTimeout: Self.requestTimeout) { site in
      let (destination, alpha) = (try number("+14155550200"), try name("alpha"))
      site.alpha.intake.hold(true)
      // The peer has confirmed nothing of it, so it cannot be held.
      let sent = Task { await site.refusal(to: destination, at: 1) }
      try await eventually("the peer keeps us waiting") {
        site.handOvers.isKeptWaiting(by: alpha) && site.alpha.intake.calls.count == 1
      }
      // The message behind it is not even sent.
      let behind = await site.refusal(to: destination, at: 2)
      #expect(behind?.kind == .peerUnavailable)
      site.alpha.intake.hold(false)
      let refusal = await sent.value
      #expect(refusal == nil)
      #expect(try await site.held().isEmpty)
      try await site.running {
        try await eventually("the devices are confirmed") { try await site.confirmation(of: destination) != nil }
      }
      #expect(site.arrived(destination) == [1])
    }
  }

  @Test func `a late refusal is told to callers that wait`() async throws {
    try await withOutbox(isRunning: false, patience: .milliseconds(200), requestTimeout: Self.requestTimeout) { site in
      let (destination, alpha) = (try number("+14155550200"), try name("alpha"))
      let missing = Problem.mismatched(missing: [try #require(DeviceID(2))], extra: [])
      site.alpha.intake.refuse(destination, with: missing)
      site.alpha.intake.hold(true)
      let sent = Task { await site.refusal(to: destination, at: 1) }
      try await eventually("the peer keeps us waiting") {
        site.handOvers.isKeptWaiting(by: alpha) && site.alpha.intake.calls.count == 1
      }
      site.alpha.intake.hold(false)
      let refusal = await sent.value
      #expect(refusal == missing)
    }
  }

  @Test func `a late refusal of a held message is noted`() async throws {
    try await withOutbox(isRunning: false, patience: .milliseconds(200), requestTimeout: Self.requestTimeout) { site in
      let destination = try number("+14155550200")
      try await site.noteConfirmed(destination)
      site.alpha.intake.refuse(destination, with: .mismatched(missing: [try #require(DeviceID(2))], extra: []))
      site.alpha.intake.hold(true)
      try await site.submit(to: destination, at: 1)
      try await eventually("it has come") { site.alpha.intake.calls.count == 1 }
      // So that it is not handed over again.
      try await site.beta.storage.removeHeld(try await site.held().map(\.sequence))
      site.alpha.intake.hold(false)
      try await site.running {
        try await eventually("the devices are forgotten") { try await site.confirmation(of: destination) == nil }
      }
      #expect(site.alpha.intake.calls.count == 1)
    }
  }

  @Test(arguments: [200, 404])
  func `a peer without batches may answer late too`(status: Int) async throws {
    var limits = PeerLimits.patient
    limits.patience = .milliseconds(200)
    limits.requestTimeout = Self.requestTimeout
    try await withScriptedPeers(["alpha"], limits: limits) { beta, peers in
      let alpha = try name("alpha")
      peers[0].answer(by: { $0.path.hasSuffix("/peering") ? .init(status: 404) : nil })
      #expect(try await beta.storage.changePeerPolicy(PeerPolicyChange(holdsMessages: true), of: alpha))
      await beta.registry.refresh()
      let requests = beta.handOvers.requests
      let outbox = Outbox(
        store: beta.storage, registry: beta.registry, requests: requests, intake: RecordingIntake(),
        bounds: OutboxBounds(messagesMax: 10, bytesMax: 1 << 20, age: .seconds(3600)),
        clock: JudgedClock(unjudged: TestRelay.systemClock), logger: beta.log.logger)
      let peer = try #require(await beta.registry.peer(named: alpha))
      #expect(await beta.transport.capabilities(of: peer).isEmpty)
      let message = SubmittedMessage(
        type: .ciphertext, device: .master, registrationID: 5, body: [1], content: nil)
      let submission = Submission(
        destination: try number("+14155550200"), messages: [message], timestamp: Timestamp(millis: 1))
      let handOvers = HandOverSender(requests, outbox: outbox)
      let handOver = HandOver.message(submission, source: try source())
      let sent = Task { try await handOvers.send(handOver, to: peer) }
      try await eventually("the peer keeps us waiting") {
        handOvers.isKeptWaiting(by: alpha) && peers[0].requests.contains { !$0.path.hasSuffix("/peering") }
      }
      peers[0].answer(by: { _ in .init(status: status) })
      let outcome = try await sent.value
      #expect(outcome == .answered(HandOverAnswer(status: status)))
      #expect(try await beta.storage.outboxUsage().isEmpty)
    }
  }

  /// - Returns: nil when the peer took it.
  private func receiptProblem(
    _ site: OutboxSite, to destination: AccountNumber, at relay: RelayName
  ) async -> Problem? {
    guard let source = AccountNumber(e164: "+14155550177") else { return Problem(.internalError) }
    do throws(Problem) {
      try await site.courier.sendReceipt(
        for: Timestamp(millis: 5), from: DeviceAddress(source, .master), to: destination, at: relay)
      return nil
    } catch {
      return error
    }
  }
}

/// How what waits is handed over where the peer keeps the order of a batch.
@Suite(.tags(.stores)) struct OrderedDrainTests {
  @Test func `a long conversation travels together and arrives in order`() async throws {
    try await withOutbox(isRunning: false) { site in
      let destination = try number("+14155550200")
      try await site.noteConfirmed(destination)
      try await site.door.close()
      let times = (1...200).map { Int64($0) }
      for time in times { try await site.submit(to: destination, at: time) }
      let before = site.alpha.intake.calls.count
      try await site.door.open()
      try await site.running {
        try await eventually("nothing is held") { try await site.beta.storage.outboxUsage().isEmpty }
      }
      #expect(site.arrived(destination) == times)
      #expect(site.alpha.intake.calls.count == before + times.count)
      #expect(site.intake.undeliverable.isEmpty)
    }
  }

  @Test func `a message that the peer puts off holds up only its own pair`() async throws {
    try await withOutbox(isRunning: false) { site in
      let (busy, other) = (try number("+14155550200"), try number("+14155550201"))
      for destination in [busy, other] { try await site.noteConfirmed(destination) }
      site.time.stop()
      site.alpha.intake.refuse(with: Problem(.unavailable))
      for time: Int64 in 1...10 {
        for destination in [busy, other] { try await site.submit(to: destination, at: time) }
      }
      site.alpha.intake.refuse(with: nil)
      site.alpha.intake.refuse(busy, with: Problem(.unavailable, retryAfter: .seconds(7)))
      let before = site.arrived(busy).count
      try await site.running {
        try await eventually("the other's have arrived") { try await site.held().count == 10 }
        try await eventually("the first was put off") { try await site.held().first?.attempts == 1 }
      }
      #expect(site.arrived(other).suffix(10) == (1...10).map { Int64($0) }[...])
      #expect(site.arrived(busy).count == before + 1)
      let held = try await site.held()
      #expect(held.map(\.attempts) == [1] + Array(repeating: 0, count: 9))
      #expect(held.compactMap(\.message.submission.timestamp?.millis) == (1...10).map { Int64($0) })
    }
  }
}
