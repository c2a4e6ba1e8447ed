import RelayCore
import TestTags
import Testing

@testable import Federation

/// The decisions about held messages, without any of them moving.
@Suite(.tags(.unit)) struct OutboxPolicyTests {
  private let policy = OutboxPolicy(age: .seconds(3600))

  private func action(_ status: Int, after attempts: Int = 0, retryAfter: Int? = nil) -> OutboxPolicy.Action {
    policy.action(after: HandOverAnswer(status: status, retryAfterSeconds: retryAfter), attempts: attempts)
  }

  @Test func `messages that the peer took are delivered, and hopeless ones are given up`() {
    for status in [200, 204] { #expect(action(status) == .delivered) }
    #expect(action(404) == .giveUp(.notFound))
    for status in [409, 410] { #expect(action(status) == .giveUp(.devices)) }
    #expect(policy.action(after: HandOverAnswer(status: 403, isSourceRefused: true), attempts: 0) == .giveUp(.refused))
    for status in [400, 405, 411, 415, 422] { #expect(action(status) == .giveUp(.refused)) }
  }

  @Test func `failures that may pass are tried again`() {
    for status in [100, 302, 401, 403, 408, 413, 425, 429, 500, 503, 504, 999] {
      #expect(action(status) == .putOff(.seconds(5)), "\(status)")
    }
  }

  @Test func `pauses grow to five minutes`() {
    let pauses = (0...8).map { action(503, after: $0) }
    let seconds = [5, 10, 20, 40, 80, 160, 300, 300, 300]
    #expect(pauses == seconds.map { .putOff(.seconds($0)) })
    #expect(action(503, after: .max) == .putOff(.seconds(300)))
  }

  @Test func `the peer's requested pause counts, within bounds`() {
    #expect(action(413, after: 5, retryAfter: 7) == .putOff(.seconds(7)))
    #expect(action(503, retryAfter: 0) == .putOff(.seconds(1)))
    #expect(action(503, retryAfter: -3) == .putOff(.seconds(1)))
    #expect(action(503, retryAfter: .max) == .putOff(.seconds(300)))
  }

  @Test func `age is counted from acceptance`() {
    let accepted = Timestamp(millis: 1000)
    #expect(!policy.isTooOld(accepted, at: Timestamp(millis: 3_600_999)))
    #expect(policy.isTooOld(accepted, at: Timestamp(millis: 3_601_000)))
  }
}

/// The order of a walk through what waits for a peer.
@Suite(.tags(.unit)) struct OutboxPassTests {
  private let now = Timestamp(millis: 1000)

  private func held(
    _ sequence: Int64, from sender: UInt64 = 100, to account: UInt64, due: Int64 = 0, bytes: Int = 1
  ) throws -> HeldMessage {
    let destination = try #require(AccountNumber(e164: "+1415555\(1000 + account)"))
    let body = SubmittedMessage(
      type: .ciphertext, device: .master, registrationID: 0, body: [UInt8](repeating: 0, count: bytes), content: nil)
    let source = DeviceAddress(try #require(AccountNumber(e164: "+14155550\(sender)")), .master)
    let submission = Submission(destination: destination, messages: [body], timestamp: Timestamp(millis: sequence))
    return HeldMessage(
      sequence: sequence,
      message: PeerSubmission(relay: try #require(RelayName("alpha")), source: source, submission: submission),
      accepted: Timestamp(millis: 0), attempts: 0, notBefore: Timestamp(millis: due))
  }

  @Test func `messages that a clock ahead put off are due when it is right again`() throws {
    var pass = OutboxPass()
    let pause = 600_000
    pass.pageRead([
      try held(1, to: 1, due: now.millis + 1), try held(2, to: 2, due: now.millis + Int64(pause)),
      try held(3, to: 3, due: now.millis + Int64(pause) + 1), try held(4, to: 4, due: now.millis + 40 * 86_400_000),
    ])
    #expect(pass.nextWave(at: now).map(\.sequence) == [3, 4])
  }

  @Test func `no two messages of a wave have one destination`() throws {
    var pass = OutboxPass()
    pass.pageRead([try held(1, to: 1), try held(2, to: 2), try held(3, to: 1), try held(4, to: 2), try held(5, to: 1)])
    #expect(pass.nextWave(at: now).map(\.sequence) == [1, 2])
    #expect(pass.nextWave(at: now).map(\.sequence) == [3, 4])
    #expect(pass.nextWave(at: now).map(\.sequence) == [5])
    #expect(pass.nextWave(at: now).isEmpty)
    #expect(pass.last == 5)
  }

  @Test func `to a peer that keeps the order, several messages of a destination go together`() throws {
    var pass = OutboxPass()
    pass.pageRead(
      try (1...40).map { try held($0, from: $0.isMultiple(of: 2) ? 100 : 200, to: 1) }
        + (41...50).map { try held($0, to: 2) })
    #expect(pass.nextWave(at: now, isInOrder: true).map(\.sequence) == Array(1...32) + Array(41...50))
    #expect(pass.nextWave(at: now, isInOrder: true).map(\.sequence) == Array(33...40))
    #expect(pass.nextWave(at: now, isInOrder: true).isEmpty)
    pass.pageRead(try (51...53).map { try held($0, to: 3, due: $0 == 52 ? 1001 : 0) })
    #expect(pass.nextWave(at: now, isInOrder: true).map(\.sequence) == [51])
  }

  @Test func `messages behind one that was put off were not tried`() throws {
    var pass = OutboxPass()
    #expect(pass.putOff(try held(1, to: 1)))
    #expect(!pass.putOff(try held(2, to: 1)))
    #expect(pass.putOff(try held(3, from: 200, to: 1)))
    for sequence: Int64 in 4...60 { #expect(!pass.putOff(try held(sequence, to: 1))) }
    #expect(!pass.isHopeless)
  }

  @Test func `nothing overtakes a message that is not due or was put off`() throws {
    var pass = OutboxPass()
    pass.pageRead([try held(1, to: 1, due: 1001), try held(2, to: 1), try held(3, to: 2), try held(4, to: 2)])
    let wave = pass.nextWave(at: now)
    #expect(wave.map(\.sequence) == [3])
    pass.putOff(try #require(wave.first))
    #expect(pass.nextWave(at: now).isEmpty)
    // On later pages neither.
    pass.pageRead([try held(5, to: 1), try held(6, to: 2), try held(7, to: 3)])
    #expect(pass.nextWave(at: now).map(\.sequence) == [7])
  }

  @Test func `one sender's failure does not delay another's`() throws {
    var pass = OutboxPass()
    pass.pageRead([
      try held(1, to: 1, due: 1001), try held(2, from: 200, to: 1), try held(3, to: 2), try held(4, to: 1),
    ])
    let wave = pass.nextWave(at: now)
    #expect(wave.map(\.sequence) == [2, 3])
    for held in wave { pass.kept(held) }
    pass.pageRead([try held(5, from: 200, to: 1), try held(6, from: 200, to: 2), try held(7, to: 2)])
    #expect(pass.nextWave(at: now).map(\.sequence) == [6])
    // Nor is it the peer's.
    for sequence: Int64 in 8...40 { pass.kept(try held(sequence, to: UInt64(sequence))) }
    #expect(!pass.isHopeless)
  }

  @Test func `waves are bounded by count and bytes, and keep the order`() throws {
    var pass = OutboxPass()
    pass.pageRead(try (1...1100).map { try held($0, to: UInt64($0)) })
    #expect(pass.nextWave(at: now).map(\.sequence) == Array(1...1024))
    #expect(pass.nextWave(at: now).map(\.sequence) == Array(1025...1100))
    let large = OutboxPass.waveBytesMax / 2 + 1
    pass.pageRead([
      try held(2001, to: 1, bytes: large), try held(2002, to: 2, bytes: large), try held(2003, to: 3),
      try held(2004, to: 2),
    ])
    #expect(pass.nextWave(at: now).map(\.sequence) == [2001])
    #expect(pass.nextWave(at: now).map(\.sequence) == [2002, 2003])
    #expect(pass.nextWave(at: now).map(\.sequence) == [2004])
  }

  @Test func `the batches of a wave share no destination, and keep the order of each`() throws {
    // Every destination has five messages.
    let wave = try (0..<1000).map { try held($0, to: UInt64($0 % 200)) }
    let batches = OutboxPass.batches(of: wave)
    #expect(batches.map(\.count) == [250, 250, 250, 250])
    let destinations = batches.map { Set($0.map(\.message.submission.destination)) }
    #expect(destinations.map(\.count).reduce(0, +) == 200)
    for batch in batches { #expect(batch.map(\.sequence) == batch.map(\.sequence).sorted()) }
    #expect(batches.joined().map(\.sequence).sorted() == wave.map(\.sequence))
    #expect(OutboxPass.batches(of: Array(wave.prefix(256))).count == 1)
    #expect(OutboxPass.batches(of: []).isEmpty)
  }

  @Test func `a peer that serves nothing is left alone`() throws {
    var pass = OutboxPass()
    for sequence: Int64 in 1...31 { pass.putOff(try held(sequence, to: UInt64(sequence))) }
    #expect(!pass.isHopeless)
    pass.settled()
    // A message that waits behind one that was put off is no failure of its own.
    for sequence: Int64 in 1...31 { pass.putOff(try held(sequence, to: UInt64(sequence))) }
    #expect(!pass.isHopeless)
    for sequence: Int64 in 32...63 { pass.putOff(try held(sequence, to: UInt64(sequence))) }
    #expect(pass.isHopeless)
  }
}

/// A process's knowledge of outboxes without asking.
@Suite(.tags(.unit)) struct OutboxViewTests {
  private let alpha = RelayName("alpha")!  // A literal that is a name.
  private let beta = RelayName("beta")!  // A literal that is a name.

  @Test func `only a reachable peer whose outbox was seen empty needs no look-up`() {
    var view = OutboxView()
    #expect(view.mustLookUp(alpha, isReachable: true))
    view.readingEnded(view.readingBegan(), of: [alpha, beta], full: [beta])
    #expect(!view.mustLookUp(alpha, isReachable: true))
    #expect(view.mustLookUp(alpha, isReachable: false))
    #expect(view.mustLookUp(beta, isReachable: true))
    view.becameUnreachable(alpha)
    #expect(view.mustLookUp(alpha, isReachable: true))
  }

  @Test func `a reading that began before a hold says nothing`() {
    var view = OutboxView()
    let early = view.readingBegan()
    view.willHold(for: alpha)
    view.readingEnded(early, of: [alpha, beta], full: [])
    #expect(view.mustLookUp(alpha, isReachable: true))
    #expect(!view.mustLookUp(beta, isReachable: true))
    view.readingEnded(view.readingBegan(), of: [alpha], full: [])
    #expect(!view.mustLookUp(alpha, isReachable: true))
  }
}

/// The devices that a peer confirms by accepting, and the judgement of submissions by them.
@Suite(.tags(.unit)) struct ConfirmedDevicesTests {
  private let two = DeviceID(2)!  // A device's id.
  private let three = DeviceID(3)!  // A device's id.
  private let key: ConfirmationMemory.Key
  private let account: AccountNumber

  init() throws {
    account = try #require(AccountNumber(e164: "+14155550100"))
    key = ConfirmationMemory.Key(account: account, relay: try #require(RelayName("alpha")))
  }

  private func submission(_ devices: [(DeviceID, Int64)], _ coverage: Submission.Coverage = .activeDevices)
    -> Submission
  {
    Submission(
      destination: account,
      messages: devices.map {
        SubmittedMessage(type: .ciphertext, device: $0.0, registrationID: $0.1, body: [1], content: nil)
      }, timestamp: nil, coverage: coverage)
  }

  private func refusal(_ submission: Submission, _ confirmed: [(DeviceID, Int64)]) -> Problem? {
    do throws(Problem) {
      try submission.check(against: confirmed.map { ConfirmedDevice(id: $0.0, registrationID: $0.1) })
      return nil
    } catch {
      return error
    }
  }

  @Test func `a submission for all devices confirms them`() {
    let confirmed = submission([(two, 0), (.master, 7), (two, 9)]).confirmedDevices
    #expect(confirmed == [.init(id: .master, registrationID: 7), .init(id: two, registrationID: 9)])
    #expect(submission([]).confirmedDevices == nil)
    #expect(submission([(.master, 7)], .masterDevice).confirmedDevices == nil)
  }

  @Test func `devices are judged as the peer would`() {
    let known: [(DeviceID, Int64)] = [(.master, 7), (two, 0)]
    #expect(refusal(submission([(.master, 7), (two, 5)]), known) == nil)
    #expect(refusal(submission([(.master, 0), (two, 0)]), known) == nil)
    #expect(refusal(submission([(three, 1)]), known) == .mismatched(missing: [.master, two], extra: [three]))
    #expect(refusal(submission([(.master, 8), (two, 5)]), known) == .stale([.master]))
    #expect(refusal(submission([]), known) == .mismatched(missing: [.master, two], extra: []))
    #expect(refusal(submission([(.master, 7)], .masterDevice), known) == nil)
    #expect(refusal(submission([(two, 7)], .masterDevice), known) == .mismatched(missing: [.master], extra: [two]))
  }

  @Test func `only new and outdated confirmations are written`() {
    var memory = ConfirmationMemory()
    let start = Timestamp(millis: 1_700_000_000_000)
    let known = [ConfirmedDevice(id: .master, registrationID: 7)]
    let blank = [ConfirmedDevice(id: .master, registrationID: 0)]
    let both = known + [ConfirmedDevice(id: two, registrationID: 0)]
    func written(_ devices: [ConfirmedDevice], after seconds: Int64 = 0, every interval: Int64 = 3600)
      -> [ConfirmedDevice]?
    {
      memory.confirmed(
        devices, of: key, at: start.adding(.seconds(seconds)), writingEvery: .seconds(interval))?.devices
    }
    #expect(written(known) == known)
    #expect(written(known) == nil)
    // A sender that compares nothing tells nothing new.
    #expect(written(blank) == nil)
    #expect(written(both) == both)
    #expect(written(both, after: 3599) == nil)
    #expect(written(both, after: 3600) == both)
    // Once a day where nothing is held.
    #expect(written(both, after: 3600 + 86_399, every: 86_400) == nil)
    #expect(written(both, after: 3600 + 86_400, every: 86_400) == both)
    memory.forget(key)
    #expect(written(blank) == blank)
  }

  @Test func `confirmations since the last write are told once`() throws {
    var memory = ConfirmationMemory()
    let start = Timestamp(millis: 1_700_000_000_000)
    let devices = [ConfirmedDevice(id: .master, registrationID: 7)]
    let other = ConfirmationMemory.Key(account: account, relay: try #require(RelayName("beta")))
    for key in [key, other] {
      #expect(memory.confirmed(devices, of: key, at: start, writingEvery: .seconds(86_400)) != nil)
    }
    #expect(memory.takeUnwritten(of: key.relay).isEmpty)
    let later = start.adding(.seconds(80_000))
    for key in [key, other] {
      #expect(memory.confirmed(devices, of: key, at: later, writingEvery: .seconds(86_400)) == nil)
    }
    #expect(memory.takeUnwritten(of: key.relay) == [.init(key: key, devices: devices, confirmed: later)])
    #expect(memory.takeUnwritten(of: key.relay).isEmpty)
    #expect(memory.takeUnwritten(of: other.relay).count == 1)
  }

  @Test func `the memory is bounded`() throws {
    var memory = ConfirmationMemory(capacity: 4)
    let devices = [ConfirmedDevice(id: .master, registrationID: 7)]
    func isWritten(_ index: Int) throws -> Bool {
      let key = ConfirmationMemory.Key(
        account: try #require(AccountNumber(e164: "+1415555\(1000 + index)")), relay: self.key.relay)
      return memory.confirmed(devices, of: key, at: Timestamp(millis: 1000), writingEvery: .seconds(3600)) != nil
    }
    for index in 0..<6 { #expect(try isWritten(index)) }
    #expect(try !isWritten(5))
    #expect(try isWritten(0))
  }
}
