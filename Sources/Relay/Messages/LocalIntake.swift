package import RelayCore
package import RelayHTTP

/// The one place for the policy of messages for accounts of this relay (reference 1.8, checks 4 to 7).
package struct LocalIntake: Intake {
  private let store: any MessageStore
  private let accounts: AccountCache
  private let clock: WallClock

  package init(store: any MessageStore, accounts: AccountCache, clock: WallClock) {
    self.store = store
    self.accounts = accounts
    self.clock = clock
  }

  package func accept(_ submission: Submission, from origin: Origin) async throws(Problem) -> Acceptance {
    let now = clock.now()
    let ownDevice = origin.ownDevice(for: submission.destination)
    guard let account = try await accounts.lookUp(submission.destination),
      ownDevice != nil || account.isActive(at: now)
    else { throw Problem(.notFound) }
    try DeviceValidation.check(submission.messages, against: account, sender: ownDevice, at: now)
    try await append(submission.envelopes(from: origin, at: now))
    guard case .client(let sender) = origin, let own = try await accounts.lookUp(sender.account) else {
      return Acceptance(needsSync: false)
    }
    return Self.acceptance(of: submission, by: own, at: now)
  }

  /// What a client is told whose submission was accepted, here or at a peer (reference 1.8): it has other active
  /// devices, and wrote to somebody else.
  package func acceptance(of submission: Submission, by caller: Caller) -> Acceptance {
    Self.acceptance(of: submission, by: caller.account, at: clock.now())
  }

  private static func acceptance(of submission: Submission, by sender: Account, at now: Timestamp) -> Acceptance {
    let isSync = sender.number == submission.destination
    return Acceptance(needsSync: !isSync && sender.activeDevices(at: now).count > 1)
  }

  /// Tells `acknowledged`'s source that its message has arrived, on every device that can be reached.
  ///
  /// A receipt is never receipted, and an account is sent none for its own messages (reference 1.9).
  package func sendReceipt(for acknowledged: Envelope) async throws(Problem) {
    guard acknowledged.type != .receipt, acknowledged.relay == nil,
      acknowledged.source.account != acknowledged.destination.account
    else { return }
    guard let account = try await accounts.lookUp(acknowledged.source.account) else { return }
    try await append(account.activeDevices(at: clock.now()).map { Envelope(receiptFor: acknowledged, to: $0.id) })
  }

  private func append(_ envelopes: [Envelope]) async throws(Problem) {
    do throws(StoreError) {
      try await store.append(envelopes)
    } catch {
      throw Problem(error)
    }
  }
}

extension Origin {
  /// The sending device when a client writes to its own account: it is not among those addressed (reference 3.2).
  fileprivate func ownDevice(for destination: AccountNumber) -> DeviceID? {
    guard case .client(let sender) = self, sender.account == destination else { return nil }
    return sender.device
  }
}
