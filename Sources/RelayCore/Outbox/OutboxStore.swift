/// Messages that were accepted for peers which could not be reached, and what is needed to accept them
/// (docs/federation.md, "The outbox").
package protocol OutboxStore: Sendable {
  /// Remembers that `relay` has confirmed at `now` that these are the devices of `account`, all of them: the last word
  /// counts.
  func confirmDevices(_ devices: [ConfirmedDevice], of account: AccountNumber, at relay: RelayName, now: Timestamp)
    async throws(StoreError)
  /// - Returns: of each of `accounts` the devices that `relay` confirmed last, ascending by id; nothing of those of
  ///   which that was before `since`, or never.
  func confirmedDevices(of accounts: [AccountNumber], at relay: RelayName, since: Timestamp) async throws(StoreError)
    -> [AccountNumber: [ConfirmedDevice]]
  /// Forgets what `relay` confirmed of `account`: it has said otherwise.
  func forgetConfirmedDevices(of account: AccountNumber, at relay: RelayName) async throws(StoreError)

  /// Appends `messages`, all of them for `relay`, to its outbox in their order, due at once. Durable on return, in one
  /// transaction; safe to repeat: an equal message that waits is not held twice.
  /// - Parameter crossings: of each message, counted as handed over where it is held; or none at all.
  /// - Returns: of each whether it is held; false, with nothing stored of it, when the outbox would exceed `bounds`,
  ///   when an earlier one of `messages` had no room, which it must not overtake, or when the peer is not active.
  func hold(
    _ messages: [PeerSubmission], counting crossings: [[Crossing]], for relay: RelayName, bounds: OutboxBounds,
    now: Timestamp
  ) async throws(StoreError) -> [Bool]
  /// - Returns: those of `destinations` for which anything waits at `relay`: a later message must not overtake it.
  func destinationsHeld(among destinations: [AccountNumber], at relay: RelayName) async throws(StoreError)
    -> Set<AccountNumber>
  /// The messages that wait for `relay`, due or not, ascending by sequence, all above `after`. At most `limit` (1 or
  /// more), fewer if they are large, and none only if nothing waits.
  ///
  /// A reader that has seen a message has seen all that will ever come before it. If a message in the store cannot be
  /// read, it comes back without messages for any device: a peer refuses that for good.
  func held(for relay: RelayName, after: Int64, limit: Int) async throws(StoreError) -> [HeldMessage]
  /// Counts an attempt for each of `sequences`, and puts the next one off until `notBefore`.
  func putOff(_ sequences: [Int64], until notBefore: Timestamp) async throws(StoreError)
  /// Everything that waits for `relay` is due at once.
  /// - Returns: how many messages.
  func makeDue(for relay: RelayName, now: Timestamp) async throws(StoreError) -> Int
  /// Makes everything that waits for `destinations` at `relay` due at once.
  func makeDue(for relay: RelayName, among destinations: [AccountNumber], now: Timestamp) async throws(StoreError)
  /// Forgets messages that were handed over, or given up, and counts what `record` says of them, in one transaction.
  func removeHeld(_ sequences: [Int64], counting record: LedgerRecord?) async throws(StoreError)
  /// The usage of every peer for which something waits, ascending by name.
  func outboxUsage() async throws(StoreError) -> [OutboxUsage]
}

extension OutboxStore {
  /// - Returns: nil when the peer confirmed nothing of `account` since then.
  package func confirmedDevices(of account: AccountNumber, at relay: RelayName, since: Timestamp)
    async throws(StoreError) -> [ConfirmedDevice]?
  {
    try await confirmedDevices(of: [account], at: relay, since: since)[account]
  }
}
