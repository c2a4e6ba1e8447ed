import Crypto
import Logging
import RelayCore
import Synchronization
import TestSupport
import TestTags
import Testing

@testable import Relay

/// The decisions before a submission is made durable, and the fields that make it the same one again.
@Suite(.tags(.unit)) struct LocalIntakeTests {
  private let store = MemoryMessages()
  private let sender: DeviceAddress
  private let recipient: AccountNumber

  init() throws {
    sender = DeviceAddress(try #require(AccountNumber(e164: "+14155550101")), .master)
    recipient = try #require(AccountNumber(e164: "+14155550102"))
  }

  private func intake(
    knowing numbers: [AccountNumber], missing: [AccountNumber] = [], mailboxSenderMax: Int = 2000,
    watch: (any MailboxWatch)? = nil
  ) -> LocalIntake {
    LocalIntake(
      store: store,
      accounts: AccountCache(store: FewAccounts(numbers: numbers, missing: missing), bus: SilentBus()),
      quota: MailboxQuota(
        store: store, bounds: MailboxBounds(mailboxMax: 5000, senderMax: mailboxSenderMax, peerPercent: 50)),
      watch: watch, clock: JudgedClock(unjudged: WallClock { Timestamp(millis: 1000) }))
  }

  private func submission(_ body: [UInt8] = [1, 2, 3], at time: Int64 = 7) -> Submission {
    Submission(
      destination: recipient,
      messages: [SubmittedMessage(type: .ciphertext, device: .master, registrationID: 0, body: body, content: [4])],
      timestamp: Timestamp(millis: time))
  }

  private func peer(_ name: String) throws -> Origin { .peer(try #require(RelayName(name)), source: sender) }

  @Test func `a sender who cannot be looked up is told so before anything is stored`() async {
    await #expect(throws: Problem.self) {
      try await intake(knowing: [recipient]).accept(submission(), from: .client(sender))
    }
    #expect(store.envelopes.isEmpty)
  }

  @Test func `one relay's message is never taken for another's`() async throws {
    let intake = intake(knowing: [sender.account, recipient])
    let origins: [Origin] = [.client(sender), try peer("alpha"), try peer("beta"), try peer("alpha")]
    for origin in origins { _ = try await intake.accept(submission(), from: origin) }
    for origin in origins {
      try await intake.acceptReceipt(for: Timestamp(millis: 7), to: recipient, from: origin)
    }
    let fingerprints = store.envelopes.map(\.fingerprint)
    #expect(fingerprints.count == 8 && Set(fingerprints).count == 6)
    #expect(fingerprints[1] == fingerprints[3] && fingerprints[5] == fingerprints[7])
  }

  /// Queues hold such fingerprints, and clients repeat what they sent before an upgrade.
  @Test func `the fingerprint of a client's message is what it always was`() async throws {
    _ = try await intake(knowing: [sender.account, recipient]).accept(submission(), from: .client(sender))
    let head: [UInt64] = [sender.account.digits, 1, 7, 0, 3, 1]
    let bytes = head.flatMap { word in (0..<8).map { UInt8(truncatingIfNeeded: word.littleEndian >> (8 * $0)) } }
    let digest = SHA256.hash(data: bytes + [1, 2, 3, 4])
    #expect(store.envelopes.map(\.fingerprint.bytes) == [Array(digest.prefix(16))])
  }

  @Test func `one relay that has used its credit up does not use up another's`() async throws {
    let intake = intake(knowing: [sender.account, recipient], mailboxSenderMax: 16)
    store.usage = MailboxUsage(total: 16, bySource: 16)
    _ = try await intake.accept(submission(at: 1), from: try peer("alpha"))
    for time: Int64 in 2...3 {
      await #expect(throws: Problem.self) {
        try await intake.accept(submission(at: time), from: try peer("alpha"))
      }
    }
    _ = try await intake.accept(submission(at: 4), from: .client(sender))
    #expect(store.envelopes.map(\.timestamp.millis) == [1, 4])
  }

  /// Its answer was lost. What has happened to the mailbox since must not make the message undeliverable.
  @Test func `a hand-over that was accepted is accepted again by a full mailbox`() async throws {
    let alpha = try peer("alpha")
    _ = try await intake(knowing: [recipient]).accept(submission(at: 1), from: alpha)
    store.usage = MailboxUsage(total: 5000, bySource: 0)
    let full = intake(knowing: [recipient])
    var refusal: Problem?
    for time: Int64 in 2...500 where refusal == nil {
      do throws(Problem) {
        _ = try await full.accept(submission(at: time), from: alpha)
      } catch {
        refusal = error
      }
    }
    #expect(refusal?.kind == .mailboxFull)
    let count = store.envelopes.count
    _ = try await full.accept(submission(at: 1), from: alpha)
    await #expect(throws: Problem.self) { try await full.accept(submission([9], at: 1), from: alpha) }
    #expect(store.envelopes.count == count)
  }

  @Test func `a peer's bundle without messages is refused by the devices, and repeats nothing`() async throws {
    let question = Submission(destination: recipient, messages: [], timestamp: Timestamp(millis: 1))
    let alpha = try peer("alpha")
    await #expect(throws: Problem.mismatched(missing: [.master], extra: [])) {
      try await intake(knowing: [recipient]).accept(question, from: alpha)
    }
  }

  private func outgoing(from source: DeviceAddress, at time: Int64 = 7) throws -> PeerSubmission {
    PeerSubmission(relay: try #require(RelayName("alpha")), source: source, submission: submission(at: time))
  }

  @Test func `the sender of an undeliverable message is told so on every device, once`() async throws {
    let intake = intake(knowing: [sender.account])
    for time: Int64 in [7, 7, 8] { #expect(try await intake.reportUndeliverable(try outgoing(from: sender, at: time))) }
    // The same account of the peer has received another message of the same time: another word.
    try await intake.acceptReceipt(
      for: Timestamp(millis: 7), to: sender.account,
      from: .peer(try #require(RelayName("alpha")), source: DeviceAddress(recipient, .master)))
    let notice = try #require(store.envelopes.first)
    #expect(notice.type == .undeliverable && notice.destination == sender)
    #expect(notice.source == DeviceAddress(recipient, .master) && notice.relay?.text == "alpha")
    #expect(notice.timestamp.millis == 7 && notice.message == nil && notice.content == nil)
    let fingerprints = store.envelopes.map(\.fingerprint)
    #expect(fingerprints[0] == fingerprints[1] && Set(fingerprints).count == 3)
  }

  @Test func `a full mailbox takes no word of what cannot be delivered`() async throws {
    store.usage = MailboxUsage(total: 5000, bySource: 0)
    let intake = intake(knowing: [sender.account])
    var told = 0
    for time: Int64 in 1...500 where try await intake.reportUndeliverable(try outgoing(from: sender, at: time)) {
      told += 1
    }
    // The caller is told which of them were not.
    #expect(told < 500 && store.envelopes.count == told)
  }

  @Test func `whether a sender is known is not guessed while the store is away`() async {
    await #expect(throws: Problem.self) {
      _ = try await intake(knowing: []).reportUndeliverable(try outgoing(from: sender))
    }
    #expect(store.envelopes.isEmpty)
  }

  private func delivery(_ intake: LocalIntake) -> DeliveryReceipts {
    let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
    return DeliveryReceipts(
      store: store, intake: intake, forwarder: ReceiptForwarder(courier: Nobody(), logger: logger), logger: logger)
  }

  /// Messages that `sender` has sent to `recipient` at `times`. They wait in the store.
  private func acknowledged(
    _ times: ClosedRange<Int64>, relay: RelayName? = nil, mayBeGone: Bool = false
  ) -> [DeliveryReceipts.Acknowledged] {
    times.map { time in
      let message = Envelope(
        destination: DeviceAddress(recipient, .master), type: .ciphertext, source: sender, relay: relay,
        timestamp: Timestamp(millis: time), message: [1], content: nil,
        fingerprint: Fingerprint(high: 1, low: UInt64(time)))
      return DeliveryReceipts.Acknowledged(
        place: store.queue(message), receipt: DeliveryReceipt(for: message), mayBeGone: mayBeGone)
    }
  }

  @Test func `an acknowledged message goes with its receipt, and the sender's devices are woken`() async throws {
    let watch = NotedWatch()
    let delivery = delivery(intake(knowing: [sender.account], watch: watch))
    let messages = acknowledged(1...300)
    // A displaced connection and the newer one may both name a message.
    #expect(try await delivery.remove(messages + messages) == Set(messages.map(\.place)))
    #expect(store.envelopes.map(\.timestamp.millis) == Array(1...300))
    #expect(
      store.envelopes.allSatisfy {
        $0.type == .receipt && $0.destination == sender && $0.source == DeviceAddress(recipient, .master)
          && $0.relay == nil
      })
    #expect(watch.woken == Array(repeating: sender, count: 300))
    #expect(try await delivery.remove(messages).isEmpty)
    #expect(store.envelopes.count == 300 && watch.woken.count == 300)
  }

  @Test func `while the store is away nothing is removed`() async throws {
    let messages = acknowledged(1...3)
    let away = delivery(intake(knowing: []))
    await #expect(throws: StoreError.self) { try await away.remove(messages) }
    #expect(store.queuedCount == 3 && store.envelopes.isEmpty)
    #expect(try await delivery(intake(knowing: [sender.account])).remove(messages).count == 3)
    #expect(store.queuedCount == 0 && store.envelopes.count == 3)
  }

  @Test func `a message whose sender is gone goes without a receipt`() async throws {
    let messages = acknowledged(1...3)
    let delivery = delivery(intake(knowing: [], missing: [sender.account]))
    #expect(try await delivery.remove(messages).count == 3)
    #expect(store.queuedCount == 0 && store.envelopes.isEmpty)
  }

  @Test func `a full mailbox takes no receipts, and keeps no message in another`() async throws {
    store.usage = MailboxUsage(total: 5000, bySource: 0)
    let delivery = delivery(intake(knowing: [sender.account]))
    #expect(try await delivery.remove(acknowledged(1...500)).count == 500)
    #expect(store.queuedCount == 0)
    // What a process takes in before it counts a mailbox for the first time.
    #expect(store.envelopes.count == 64)
    store.usage = MailboxUsage(total: 5000 - 10, bySource: 0)
    try await eventually("the mailbox is counted again") {
      let before = store.envelopes.count
      _ = try await delivery.remove(acknowledged(1...1))
      return store.envelopes.count > before
    }
  }

  @Test func `room that was taken for receipts is given back when nothing was removed`() async throws {
    let intake = intake(knowing: [sender.account], mailboxSenderMax: 20)
    let delivery = delivery(intake)
    let messages = acknowledged(1...10)
    #expect(try await delivery.remove(messages).count == 10)
    store.usage = MailboxUsage(total: 10, bySource: 10)
    for _ in 0..<50 { #expect(try await delivery.remove(messages).isEmpty) }
    #expect(try await delivery.remove(acknowledged(11...11)).count == 1)
    #expect(store.envelopes.count == 11)
  }

  @Test func `a message that is gone behind a removal of unknown outcome wakes its sender`() async throws {
    let watch = NotedWatch()
    let delivery = delivery(intake(knowing: [sender.account], watch: watch))
    let messages = acknowledged(1...2, mayBeGone: true)
    #expect(try await delivery.remove(messages).count == 2)
    // As if the answer had been lost.
    #expect(try await delivery.remove(messages).isEmpty)
    #expect(watch.woken.count == 4 && store.envelopes.count == 2)
  }

  @Test func `a removal whose answer was lost is tried once more, and wakes the sender`() async throws {
    let watch = NotedWatch()
    let delivery = delivery(intake(knowing: [sender.account], watch: watch))
    let message = acknowledged(1...1)[0]
    store.loseNextAnswer()
    #expect(try await delivery.remove(one: message))
    #expect(store.queuedCount == 0 && store.envelopes.count == 1 && watch.woken == [sender])
    // Its caller comes again.
    #expect(try await !delivery.remove(one: message))
  }

  @Test func `the receipt for a peer's account is not stored here`() async throws {
    let delivery = delivery(intake(knowing: [sender.account]))
    let messages = acknowledged(1...3, relay: RelayName("alpha"))
    #expect(try await delivery.remove(messages).count == 3)
    #expect(store.queuedCount == 0 && store.envelopes.isEmpty)
  }

  @Test func `a bundle costs what it has for one device, and at least 1`() throws {
    func cost(_ devices: [Int64]) throws -> Int {
      let messages = try devices.map { id in
        SubmittedMessage(
          type: .ciphertext, device: try #require(DeviceID(id)), registrationID: 0, body: nil, content: nil)
      }
      return Submission(destination: recipient, messages: messages, timestamp: nil).messagesPerDeviceMax
    }
    #expect(try cost([]) == 1)
    #expect(try cost([1, 2, 3]) == 1)
    #expect(try cost([1, 2, 1, 3, 2, 1]) == 3)
  }
}

/// Some accounts of one fetching device each, and numbers without an account; to look any other up fails.
private struct FewAccounts: AccountStore {
  let numbers: [AccountNumber]
  var missing: [AccountNumber] = []

  func account(_ number: AccountNumber) async throws(StoreError) -> Account? {
    if missing.contains(number) { return nil }
    guard numbers.contains(number) else { throw Self.away }
    let device = Device(
      id: .master, password: PasswordHash(salt: [], hash: []), signalingKey: Secret(""), registrationID: 1,
      fetchesMessages: true, lastSeen: Timestamp(millis: 0), created: Timestamp(millis: 0))
    return Account(number: number, devices: [device], identityKey: nil, supportsSMS: false, voice: false)
  }

  func accounts(_ numbers: [AccountNumber]) async throws(StoreError) -> [Account] { throw Self.away }
  func noteSeen(_ devices: [DeviceAddress], on day: Timestamp) async throws(StoreError) -> [DeviceAddress] {
    throw Self.away
  }
  func setVerificationCode(_ code: VerificationCode, for number: AccountNumber, purpose: CodePurpose)
    async throws(StoreError)
  { throw Self.away }
  func checkVerificationCode(_ code: Secret, for number: AccountNumber, triesMax: Int, now: Timestamp)
    async throws(StoreError) -> Bool
  { throw Self.away }
  func drawNumberToken(for number: AccountNumber, by password: PasswordHash, now: Timestamp) async throws(StoreError)
    -> Int64?
  { throw Self.away }
  func register(_ registration: Registration, proof: RegistrationProof, now: Timestamp) async throws(StoreError)
    -> RegistrationOutcome
  { throw Self.away }
  func linkDevice(_ link: DeviceLink, code: Secret, triesMax: Int, now: Timestamp) async throws(StoreError)
    -> LinkOutcome
  { throw Self.away }
  func accounts(holding tokens: [ContactToken]) async throws(StoreError) -> [AccountNumber] { throw Self.away }
  func removeDevice(_ device: DeviceAddress) async throws(StoreError) -> Bool { throw Self.away }
  func updateDevice(_ device: DeviceAddress, _ change: DeviceChange) async throws(StoreError) -> Bool {
    throw Self.away
  }

  private static let away = StoreError.unavailable(reason: "away")
}

/// Notes whom it is told of.
private final class NotedWatch: MailboxWatch {
  private let devices = Mutex<[DeviceAddress]>([])
  var woken: [DeviceAddress] { devices.withLock(\.self) }

  func watches(_ mailbox: DeviceAddress) -> Bool { false }
  func stored(_ messages: [AppendedEnvelope]) { devices.withLock { $0 += messages.map(\.envelope.destination) } }
  func removed(_ sequence: Int64, from mailbox: DeviceAddress) {}
}

/// Keeps what is appended and what removals store, every repetition too; and messages that may be removed.
private final class MemoryMessages: MessageStore {
  private struct State {
    var envelopes: [Envelope] = []
    var usage = MailboxUsage(total: 0, bySource: 0)
    var queued: [MailboxPlace: Envelope] = [:]
    var sequence: Int64 = 0
    var losesNextAnswer = false
  }

  private let state = Mutex(State())

  var envelopes: [Envelope] { state.withLock { $0.envelopes } }
  var queuedCount: Int { state.withLock { $0.queued.count } }
  /// The usage of every mailbox by every sender.
  var usage: MailboxUsage {
    get { state.withLock { $0.usage } }
    set { state.withLock { $0.usage = newValue } }
  }

  /// As when a connection breaks behind a commit.
  func loseNextAnswer() { state.withLock { $0.losesNextAnswer = true } }

  func queue(_ envelope: Envelope) -> MailboxPlace {
    state.withLock { state in
      state.sequence += 1
      let place = MailboxPlace(envelope.destination, sequence: state.sequence)
      state.queued[place] = envelope
      return place
    }
  }
  func append(_ envelopes: [Envelope], watch: (any AppendWatch)?) async throws(StoreError) {
    state.withLock { $0.envelopes += envelopes }
    watch?.stored(envelopes.map { AppendedEnvelope($0, at: nil) })
  }
  func pending(in mailbox: DeviceAddress, after: Int64, limit: Int) async throws(StoreError) -> [QueuedEnvelope] { [] }
  func waiting(_ reads: [MailboxRead]) async throws(StoreError) -> [[QueuedEnvelope]] { reads.map { _ in [] } }
  func remove(_ removals: [MailboxRemoval]) async throws(StoreError) -> Set<MailboxPlace> {
    let (removed, isLost) = state.withLock { state in
      defer { state.losesNextAnswer = false }
      var removed: Set<MailboxPlace> = []
      for removal in removals {
        guard let message = state.queued.removeValue(forKey: removal.place) else { continue }
        removed.insert(removal.place)
        guard let receipt = removal.receipt else { continue }
        state.envelopes += receipt.devices.map { device in
          Envelope(
            destination: DeviceAddress(message.source.account, device), type: .receipt, source: message.destination,
            relay: nil, timestamp: message.timestamp, message: nil, content: nil, fingerprint: receipt.fingerprint)
        }
      }
      return (removed, state.losesNextAnswer)
    }
    if isLost { throw .unavailable(reason: "the connection ended") }
    return removed
  }
  func queued(among places: [MailboxPlace]) async throws(StoreError) -> Set<MailboxPlace> { [] }
  func oldest(from source: AccountNumber, timestamp: Timestamp, in mailbox: DeviceAddress, after: Int64)
    async throws(StoreError) -> QueuedEnvelope?
  { nil }
  func standing(of timestamp: Timestamp, from source: AccountNumber, in mailbox: DeviceAddress)
    async throws(StoreError) -> MessageStanding
  { .unknown }
  func isKnown(_ envelopes: [Envelope]) async throws(StoreError) -> Bool {
    let known = Set(self.envelopes.map(\.fingerprint))
    return envelopes.allSatisfy { known.contains($0.fingerprint) }
  }
  func usage(of mailbox: DeviceAddress, by source: AccountNumber, from peer: RelayName?, countingTo max: Int)
    async throws(StoreError) -> MailboxUsage
  { usage }
  func maintain(_: RetentionTerms) async throws(StoreError) -> Int { 0 }
}

private struct SilentBus: SignalBus {
  func publish(_ signal: Signal) async {}
  func listen(_ handler: @escaping @Sendable (SignalEvent) -> Void) {}
}

/// No peer is known.
private struct Nobody: Courier {
  func preKeys(
    of account: AccountNumber, devices: DeviceSelector, version: PreKeyVersion, at relay: RelayName
  ) async throws(Problem) -> [DrawnPreKey] { throw Problem(.notFound) }
  func sendReceipt(
    for timestamp: Timestamp, from source: DeviceAddress, to destination: AccountNumber, at relay: RelayName
  ) async throws(Problem) { throw Problem(.notFound) }
  func attachmentURL(of id: AttachmentID, at relay: RelayName) async throws(Problem) -> String {
    throw Problem(.notFound)
  }
  func submit(_ submission: Submission, from source: DeviceAddress, to relay: RelayName) async throws(Problem) {
    throw Problem(.notFound)
  }
}
