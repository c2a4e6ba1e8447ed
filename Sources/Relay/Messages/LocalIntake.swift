package import RelayCore
package import RelayHTTP
import RelayMetrics

/// Tells connections of changes in their mailboxes, behind the commit. The hub implements it, in a folder above this
/// one.
package protocol MailboxWatch: AppendWatch {
  /// The device itself removed the message at `sequence` over HTTP: its connection no longer holds it.
  func removed(_ sequence: Int64, from mailbox: DeviceAddress)
}

/// The one place for the policy of messages for accounts of this relay (reference 1.8, checks 4 to 7).
package struct LocalIntake: Intake {
  private let store: any MessageStore
  private let accounts: AccountCache
  private let quota: MailboxQuota
  private let watch: (any MailboxWatch)?
  private let clock: JudgedClock
  private let dropped = DroppedReceipts()

  /// - Parameter watch: nil where nobody is connected, in a command: devices find a message when they look by
  ///   themselves.
  package init(
    store: any MessageStore, accounts: AccountCache, quota: MailboxQuota, watch: (any MailboxWatch)?, clock: JudgedClock
  ) {
    self.store = store
    self.accounts = accounts
    self.quota = quota
    self.watch = watch
    self.clock = clock
  }

  package func accept(
    _ submission: Submission, marks: [CrossingMark], from origin: Origin
  ) async throws(Problem) -> Acceptance {
    guard let account = try await accounts.lookUp(submission.destination) else { throw Problem(.notFound) }
    let envelopes = submission.envelopes(from: origin, marks: marks, at: clock.now())
    let acceptance: Acceptance
    do throws(Problem) {
      acceptance = try await admit(submission, for: account, as: envelopes, from: origin)
    } catch {
      guard try await isRepeated(envelopes, from: origin, error) else { throw error }
      return Acceptance(needsSync: false)
    }
    defer { quota.release(envelopes) }
    try await append(envelopes)
    return acceptance
  }

  /// All that may refuse a submission, and no part of it durable: behind the commit nothing may fail. The room of
  /// `envelopes` is taken.
  private func admit(
    _ submission: Submission, for account: Account, as envelopes: [Envelope], from origin: Origin
  ) async throws(Problem) -> Acceptance {
    let ownDevice = origin.ownDevice(for: submission)
    guard ownDevice != nil || account.isActive(at: clock.believed()) else { throw Problem(.notFound) }
    try DeviceValidation.check(
      submission.messages, against: account, coverage: submission.coverage, sender: ownDevice, at: clock.believed())
    let acceptance = try await acceptance(of: submission, from: origin, at: clock.believed())
    try await quota.reserve(envelopes)
    return acceptance
  }

  /// Whether a peer hands over what was accepted before, and had not heard so. Its mailbox may be full by now, with
  /// this very message perhaps, or have another device beside it. A refusal would tell the sender that a message that
  /// has arrived has not.
  private func isRepeated(
    _ envelopes: [Envelope], from origin: Origin, _ refusal: Problem
  ) async throws(Problem) -> Bool {
    // A bundle without messages asks for the devices, by a refusal.
    guard origin.relay != nil, !envelopes.isEmpty, refusal.kind.status < 500 else { return false }
    do throws(StoreError) {
      return try await store.isKnown(envelopes)
    } catch {
      throw Problem(error)
    }
  }

  private func acceptance(of submission: Submission, from origin: Origin, at now: Timestamp) async throws(Problem)
    -> Acceptance
  {
    guard case .client(let sender) = origin, let own = try await accounts.lookUp(sender.account) else {
      return Acceptance(needsSync: false)
    }
    return Self.acceptance(of: submission, by: own, at: now)
  }

  /// The answer to a client whose submission was accepted, here or at a peer (reference 1.8). It says whether the
  /// client has other active devices, and wrote to somebody else.
  package func acceptance(of submission: Submission, by caller: Caller) -> Acceptance {
    Self.acceptance(of: submission, by: caller.account, at: clock.believed())
  }

  private static func acceptance(of submission: Submission, by sender: Account, at now: Timestamp) -> Acceptance {
    let isSync = sender.number == submission.destination
    return Acceptance(needsSync: !isSync && sender.activeDevices(at: now).count > 1)
  }

  /// A full mailbox takes no receipts: they are dropped, since their senders could do nothing about it.
  package func acceptReceipt(
    for timestamp: Timestamp, mark: CrossingMark?, to destination: AccountNumber, from origin: Origin
  ) async throws(Problem) {
    let now = clock.believed()
    guard let account = try await accounts.lookUp(destination), account.isActive(at: now) else {
      throw Problem(.notFound)
    }
    try await queueReceipts(Self.receipts(for: timestamp, mark: mark, to: account, from: origin, at: now))
  }

  /// Reads the accounts that many receipts are for in one statement, where they are not remembered.
  func expect(_ receipts: [DeliveryReceipt]) async {
    _ = await accounts.accounts(Set(receipts.lazy.filter { $0.relay == nil }.map(\.destination)))
  }

  /// The receipt for an account of this relay, as the removal of its message stores it: one for every device that can
  /// be reached and whose mailbox has room. The room is taken: `settle` follows.
  /// - Returns: nil when the account is gone: then nobody is told.
  func prepare(_ receipt: DeliveryReceipt) async throws(Problem) -> PreparedReceipt? {
    let now = clock.believed()
    guard let account = try await accounts.lookUp(receipt.destination) else { return nil }
    let notices = Self.receipts(
      for: receipt.timestamp, mark: nil, to: account, from: .client(receipt.source), at: now)
    let taken = try await takeRoom(for: notices)
    return PreparedReceipt(envelopes: taken, refusedCount: notices.count - taken.count)
  }

  /// The removals of their messages are over: stored or not, they take no room that a count does not see.
  func settle(_ receipts: [PreparedReceipt]) { quota.release(receipts.flatMap(\.envelopes)) }

  /// They were stored: their devices are woken, and the mailboxes without room are counted.
  func stored(_ receipts: [PreparedReceipt]) {
    dropped.count(receipts.reduce(0) { $0 + $1.refusedCount }, .mailboxFull)
    wake(for: receipts)
  }

  /// They may have been stored. To be woken for nothing is harmless.
  func wake(for receipts: [PreparedReceipt]) {
    let envelopes = receipts.flatMap(\.envelopes)
    if !envelopes.isEmpty { watch?.stored(envelopes.map { AppendedEnvelope($0, at: nil) }) }
  }

  private func queueReceipts(_ receipts: [Envelope]) async throws(Problem) {
    dropped.count(receipts.count - (try await queue(receipts)), .mailboxFull)
  }

  private static func receipts(
    for timestamp: Timestamp, mark: CrossingMark?, to account: Account, from origin: Origin, at now: Timestamp
  ) -> [Envelope] {
    // With one of them, or a device that is linked later would have a repeated receipt counted again.
    account.activeDevices(at: now).map { device in
      Envelope(
        receiptOf: timestamp, to: DeviceAddress(account.number, device.id), from: origin,
        mark: device.id == .master ? mark : nil)
    }
  }

  package func reportUndeliverable(_ message: PeerSubmission) async throws(Problem) -> Bool {
    guard let account = try await accounts.lookUp(message.source.account) else { return true }
    let now = clock.now()
    let notices = account.activeDevices(at: clock.believed()).map { device in
      Envelope(undeliverable: message, to: DeviceAddress(account.number, device.id), at: now)
    }
    let taken = try await queue(notices)
    return taken > 0 || notices.isEmpty
  }

  /// A full mailbox takes no notices.
  /// - Returns: how many were taken.
  private func queue(_ notices: [Envelope]) async throws(Problem) -> Int {
    let taken = try await takeRoom(for: notices)
    defer { quota.release(taken) }
    if !taken.isEmpty { try await append(taken) }
    return taken.count
  }

  /// - Returns: those of `notices` whose mailboxes have room. It is taken.
  private func takeRoom(for notices: [Envelope]) async throws(Problem) -> [Envelope] {
    var taken: [Envelope] = []
    do throws(Problem) {
      for notice in notices where try await hasRoom(for: notice) { taken.append(notice) }
    } catch {
      quota.release(taken)
      throw error
    }
    return taken
  }

  /// Takes the room, if there is any.
  private func hasRoom(for notice: Envelope) async throws(Problem) -> Bool {
    do throws(Problem) {
      try await quota.reserve(CollectionOfOne(notice))
      return true
    } catch {
      guard [.mailboxFull, .senderShareFull, .peerShareFull].contains(error.kind) else { throw error }
      return false
    }
  }

  /// The device has removed it by itself.
  func removed(_ queued: QueuedEnvelope, from mailbox: DeviceAddress) { watch?.removed(queued.sequence, from: mailbox) }

  /// Behind the commit the watch is told, which delivers or wakes.
  private func append(_ envelopes: [Envelope]) async throws(Problem) {
    do throws(StoreError) {
      try await store.append(envelopes, watch: watch)
    } catch {
      throw Problem(error)
    }
  }
}

extension Origin {
  /// The sending device when a client writes to its own other devices: it is not among those addressed (reference 3.2).
  fileprivate func ownDevice(for submission: Submission) -> DeviceID? {
    guard case .client(let sender) = self, sender.account == submission.destination,
      submission.coverage == .activeDevices
    else { return nil }
    return sender.device
  }
}
