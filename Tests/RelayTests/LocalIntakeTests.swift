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

  private func intake(knowing numbers: [AccountNumber], mailboxSenderMax: Int = 2000) -> LocalIntake {
    LocalIntake(
      store: store, accounts: AccountCache(store: FewAccounts(numbers: numbers), bus: SilentBus()),
      quota: MailboxQuota(
        store: store, bounds: MailboxBounds(mailboxMax: 5000, senderMax: mailboxSenderMax, peerPercent: 50)),
      watch: nil, clock: JudgedClock(unjudged: WallClock { Timestamp(millis: 1000) }))
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

  private func outgoing(from source: DeviceAddress, at time: Int64 = 7) throws -> OutgoingMessage {
    OutgoingMessage(relay: try #require(RelayName("alpha")), source: source, submission: submission(at: time))
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

  /// Each receipt of `times` is for a message that `sender` has sent to `recipient`, who has acknowledged it.
  private func receipts(_ times: ClosedRange<Int64>) throws -> [DeliveryReceipt] {
    try times.map { time in
      let acknowledged = Envelope(
        destination: DeviceAddress(recipient, .master), type: .ciphertext, source: sender, relay: nil,
        timestamp: Timestamp(millis: time), message: [1], content: nil,
        fingerprint: Fingerprint(high: 1, low: UInt64(time)))
      return try #require(DeliveryReceipt(for: acknowledged))
    }
  }

  @Test func `receipts wait for a store that is away, and none is lost`() async throws {
    let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
    let delivery = DeliveryReceipts(
      intake: intake(knowing: [sender.account]), forwarder: ReceiptForwarder(courier: Nobody(), logger: logger),
      pause: .milliseconds(1), logger: logger)
    store.fails(5)
    delivery.queue(try receipts(1...300))
    for receipt in try receipts(301...303) { await delivery.send(receipt) }
    try await eventually("all are stored") { store.envelopes.count == 303 }
    await delivery.settle(until: .now + .seconds(60))
    #expect(Set(store.envelopes.map(\.timestamp.millis)) == Set(1...303))
    #expect(store.envelopes.allSatisfy { $0.type == .receipt && $0.destination == sender })
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

/// Some accounts of one fetching device each; to look any other up fails.
private struct FewAccounts: AccountStore {
  let numbers: [AccountNumber]

  func account(_ number: AccountNumber) async throws(StoreError) -> Account? {
    guard numbers.contains(number) else { throw Self.away }
    let device = Device(
      id: .master, password: PasswordHash(salt: [], hash: []), signalingKey: Secret(""), registrationID: 1,
      fetchesMessages: true, lastSeen: Timestamp(millis: 0), created: Timestamp(millis: 0))
    return Account(number: number, devices: [device], identityKey: nil, supportsSMS: false, voice: false)
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

/// Keeps what is appended, every repetition too.
private final class MemoryMessages: MessageStore {
  private let state = Mutex<(envelopes: [Envelope], usage: MailboxUsage)>(([], MailboxUsage(total: 0, bySource: 0)))
  /// Appends that are refused before the next one is taken.
  private let outage = Atomic(0)

  var envelopes: [Envelope] { state.withLock { $0.envelopes } }
  /// The usage of every mailbox by every sender.
  var usage: MailboxUsage {
    get { state.withLock { $0.usage } }
    set { state.withLock { $0.usage = newValue } }
  }

  func fails(_ appends: Int) { outage.store(appends, ordering: .sequentiallyConsistent) }
  func append(_ envelopes: [Envelope], watch: (any AppendWatch)?) async throws(StoreError) {
    guard outage.load(ordering: .sequentiallyConsistent) == 0 else {
      outage.subtract(1, ordering: .sequentiallyConsistent)
      throw .unavailable(reason: "away")
    }
    state.withLock { $0.envelopes += envelopes }
    watch?.stored(envelopes.map { AppendedEnvelope($0, at: nil) })
  }
  func pending(in mailbox: DeviceAddress, after: Int64, limit: Int) async throws(StoreError) -> [QueuedEnvelope] { [] }
  func waiting(_ reads: [MailboxRead]) async throws(StoreError) -> [[QueuedEnvelope]] { reads.map { _ in [] } }
  func remove(_ places: [MailboxPlace]) async throws(StoreError) -> Set<MailboxPlace> { [] }
  func queued(among places: [MailboxPlace]) async throws(StoreError) -> Set<MailboxPlace> { [] }
  func acknowledge(source: AccountNumber, timestamp: Timestamp, in mailbox: DeviceAddress) async throws(StoreError)
    -> QueuedEnvelope?
  { nil }
  func hasReceived(from source: AccountNumber, timestamp: Timestamp, in mailbox: DeviceAddress)
    async throws(StoreError) -> Bool
  { false }
  func usage(of mailbox: DeviceAddress, by source: AccountNumber, from peer: RelayName?, countingTo max: Int)
    async throws(StoreError) -> MailboxUsage
  { usage }
  func maintain(retention: Duration) async throws(StoreError) -> Int { 0 }
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
