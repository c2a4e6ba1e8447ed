// The contracts of durable storage. Two implementations keep them, PostgreSQL and SQLite, and one contract
// suite (Tests/StorageTests) holds both to it.
//
// Common to all: a method is one intention and one transaction; it is durable on return; it throws
// `.unavailable` when nothing was stored; empty input is allowed and does nothing; it never blocks an event
// loop or the shared thread pool.

/// Accounts, their devices, and the codes that create them.
package protocol AccountStore: Sendable {
  /// - Returns: the account with its devices ascending by id, or nil.
  func account(_ number: AccountNumber) async throws(StoreError) -> Account?

  /// Remembers `code` as the only valid one for `number`, with no tries used.
  func setVerificationCode(_ code: VerificationCode, for number: AccountNumber) async throws(StoreError)

  /// Puts `registration` in the place of the account if `code` is the pending code of its number.
  ///
  /// Refuses a number that an active peer lists and that has no account here (reference 1.4, 417).
  ///
  /// Atomic: the code is used up, devices, keys and queued messages of the former installation are gone, and the
  /// directory lists the account exactly when it is active. A wrong code counts as a try; the try that reaches
  /// `triesMax` drops the pending code.
  func register(_ registration: Registration, code: Secret, triesMax: Int, now: Timestamp) async throws(StoreError)
    -> RegistrationOutcome
}

/// A pending code: six digits, first never 0.
package struct VerificationCode: Sendable, Equatable {
  package let code: Secret
  package let expires: Timestamp
  package init(code: Secret, expires: Timestamp) {
    self.code = code
    self.expires = expires
  }
}

package enum RegistrationOutcome: Sendable, Equatable {
  case registered
  /// No pending code, an expired one, or another one.
  case codeRefused
  /// The code is right, but an active peer lists the number. The code stays pending; nothing else was stored.
  case numberElsewhere
}

/// One-time and last-resort prekeys, by device.
package protocol PreKeyStore: Sendable {
  /// Puts `upload` in the place of all the device's prekeys, and its identity key into the account.
  /// - Returns: false, with nothing stored, when the device does not exist.
  func replacePreKeys(of device: DeviceAddress, with upload: PreKeyUpload) async throws(StoreError) -> Bool

  /// One-time keys left, the last resort not counted.
  func preKeyCount(of device: DeviceAddress) async throws(StoreError) -> Int

  /// Takes one prekey of each of `devices` that has any: the one-time key with the smallest id, which nobody is
  /// ever given again, or, when there is none, the last-resort key, which stays.
  /// - Returns: one per device at most, ascending by device; registration ids and identity key of this moment.
  func drawPreKeys(of account: AccountNumber, devices: [DeviceID]) async throws(StoreError) -> [DrawnPreKey]
}

/// The mailboxes.
package protocol MessageStore: Sendable {
  /// Appends `envelopes` to their mailboxes, all or none.
  ///
  /// Durable on return. Safe to repeat: an envelope whose fingerprint its mailbox took in, or had acknowledged, today
  /// or yesterday (UTC) is not stored again. Appends of one caller that wait for each other keep their order.
  func append(_ envelopes: [Envelope]) async throws(StoreError)

  /// The oldest envelopes of `mailbox` by order of acceptance, at most `limit` (1 or more), all with a sequence
  /// above `after`.
  func pending(in mailbox: DeviceAddress, after: Int64, limit: Int) async throws(StoreError) -> [QueuedEnvelope]

  /// Removes the oldest envelope with that source and timestamp from `mailbox`.
  /// - Returns: what was removed, or nil when nothing matched.
  func acknowledge(source: AccountNumber, timestamp: Timestamp, in mailbox: DeviceAddress) async throws(StoreError)
    -> QueuedEnvelope?

  /// Makes room for the days to come and drops envelopes that arrived more than `retention` ago, whole days at a
  /// time. Cheap when there is nothing to do; safe to run on every process at once.
  /// - Returns: how many days were dropped.
  func maintain(retention: Duration) async throws(StoreError) -> Int
}

/// Contact tokens: our accounts' and what peers told us.
package protocol DirectoryStore: Sendable {
  /// - Returns: an entry for each known token, in no order, at most one each: ours before any peer's, else that of the
  ///   active peer whose name sorts first. Inactive accounts are unknown.
  func entries(for tokens: [ContactToken]) async throws(StoreError) -> [DirectoryEntry]

  /// All local accounts, active or not.
  func accountCount() async throws(StoreError) -> Int

  /// Local accounts `offset`..., at most `limit`, in a stable order; empty past the end.
  func accounts(offset: Int, limit: Int) async throws(StoreError) -> [ListedAccount]

  /// Rises whenever a local account's listing changes. Lets a peer skip what it has seen.
  func accountsRevision() async throws(StoreError) -> Int64

  /// Adds one page of what `peer` lists to the pass `pass` (a number that rises from pass to pass of one peer).
  /// Inactive accounts are removed, active ones added or refreshed. Does nothing when the peer does not exist.
  func mergeContacts(_ page: [ListedAccount], of peer: RelayName, pass: Int64) async throws(StoreError)

  /// Removes what the complete pass `pass` did not see, and remembers the peer's revision mark.
  func finishContacts(of peer: RelayName, pass: Int64, mark: String?) async throws(StoreError)

  /// The last finished pass of `peer`, 0 when there is none, and the mark it ended with.
  func contactsPass(of peer: RelayName) async throws(StoreError) -> (pass: Int64, mark: String?)
}

/// Peers and invitations.
package protocol PeerStore: Sendable {
  /// All peers, ascending by name.
  func peers() async throws(StoreError) -> [Peer]

  /// Rises whenever a peer is added, changed or removed, by whatever process.
  func peersRevision() async throws(StoreError) -> Int64

  /// Adds `peer`, or replaces what is known under its name if the CA certificate is the same.
  /// - Returns: false, with nothing stored, when another CA certificate stands under that name.
  func savePeer(_ peer: Peer) async throws(StoreError) -> Bool

  /// Suspending forgets the used invitations: a repeated redemption must not bring the peer back.
  /// - Returns: false when there is no such peer.
  func setPeerState(_ state: Peer.State, of name: RelayName) async throws(StoreError) -> Bool

  /// Removes the peer, every contact token that came from it, and the used invitations.
  /// - Returns: false when there is no such peer.
  func removePeer(_ name: RelayName) async throws(StoreError) -> Bool

  func saveInvitation(_ invitation: Invitation) async throws(StoreError)

  /// True while an invitation can still be redeemed: only then may an unknown CA's certificate complete a handshake.
  func hasOpenInvitation(now: Timestamp) async throws(StoreError) -> Bool

  /// Uses the invitation up for the holder of `caFingerprint` (SHA-256 of its CA's public key). Repeating it with the
  /// same fingerprint before it expires succeeds again, so that an answer lost on the way costs nothing, unless a peer
  /// was suspended or removed meanwhile.
  /// - Returns: the invitation; nil when unknown, expired, or used by another.
  func redeemInvitation(secretHash: [UInt8], caFingerprint: [UInt8], now: Timestamp) async throws(StoreError)
    -> Invitation?
}

/// The schema of a store and the steps that bring it up to date.
package protocol SchemaStore: Sendable {
  /// Ascending by version; `applied` is nil for a step that has not run.
  func migrations() async throws(StoreError) -> [MigrationStatus]
  /// Runs what is pending, one transaction a step, reporting each as it is done. Safe to run on several processes at
  /// once. - Throws: `.unavailable` when a lock or statement time-out strikes: nothing of that step was done.
  func migrate(progress: @Sendable (MigrationStatus) -> Void) async throws(StoreError)
  /// Which schema versions this build can work on.
  func compatibility() async throws(StoreError) -> SchemaCompatibility
}

package struct MigrationStatus: Sendable, Equatable {
  package let version: Int
  package let name: String
  package let applied: Timestamp?
  package init(version: Int, name: String, applied: Timestamp?) {
    self.version = version
    self.name = name
    self.applied = applied
  }
}

package enum SchemaCompatibility: Sendable, Equatable {
  case usable(version: Int)
  /// `relay migrate run` has to run first.
  case tooOld(version: Int, needed: Int)
  /// A newer relay changed the schema in a way that this one cannot follow.
  case tooNew(version: Int, newestKnown: Int)
}

/// All durable stores of one relay, over one database.
package protocol Storage: AccountStore, PreKeyStore, MessageStore, DirectoryStore, PeerStore, SchemaStore {
  /// Whether the store answers just now, for `/readyz`.
  func ping() async throws(StoreError)
  /// Ends every connection. Calls in flight fail with `.unavailable`.
  func close() async
}
