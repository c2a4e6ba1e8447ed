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

  /// Remembers `code` as the only valid one of its purpose for `number`, with no tries used.
  func setVerificationCode(_ code: VerificationCode, for number: AccountNumber, purpose: CodePurpose)
    async throws(StoreError)

  /// Whether `code` is the one that is pending to register `number`; if not, that was a try, as in `register`. It stays
  /// pending.
  func checkVerificationCode(_ code: Secret, for number: AccountNumber, triesMax: Int, now: Timestamp)
    async throws(StoreError) -> Bool

  /// The second that a number token of the account bears which is drawn now: the present one, or the next that no token
  /// has had which is void.
  ///
  /// The token is void with the next registration of the account, whatever proves that, and in whatever process the
  /// clock is ahead.
  /// - Parameter password: of the installation that draws it, device 1's.
  /// - Returns: nil, with nothing stored, unless device 1 has that password.
  func drawNumberToken(for number: AccountNumber, by password: PasswordHash, now: Timestamp) async throws(StoreError)
    -> Int64?

  /// Puts `registration` in the place of the account if `proof` holds.
  ///
  /// A number token holds while its second is above all that tokens of the account may have borne when it was last
  /// registered: so it is good once, and only for the installation that drew it.
  ///
  /// With a code, and when `registration.respectsClaims`, it refuses a number that an active peer lists and that has no
  /// account here (reference 1.4, 417). It refuses any proof when the account's registration lock is not
  /// `registration.satisfiedLock`.
  ///
  /// Atomic: the code is used up, devices, keys and queued messages of the former installation are gone, and the
  /// directory lists the account exactly when it is active. A wrong code or a lock that is not satisfied counts as a
  /// try; the try that reaches `triesMax` drops the pending code.
  func register(_ registration: Registration, proof: RegistrationProof, now: Timestamp) async throws(StoreError)
    -> RegistrationOutcome

  /// Adds `link`'s device to its account if `code` is the pending linking code.
  ///
  /// The device takes the lowest id from 2 on that is held by an inactive device, whose prekeys and mailbox are gone
  /// then, or else the highest id plus 1. A wrong code counts as a try, as in `register`; a full account does not use
  /// the code up.
  func linkDevice(_ link: DeviceLink, code: Secret, triesMax: Int, now: Timestamp) async throws(StoreError)
    -> LinkOutcome

  /// The accounts, active or not, whose number's token is one of `tokens`: in no order, at most one a token.
  /// - Parameter tokens: some at most: they are looked up one by one.
  func accounts(holding tokens: [ContactToken]) async throws(StoreError) -> [AccountNumber]

  /// Removes a linked device with its prekeys and its mailbox.
  /// - Returns: false when there is no such device.
  func removeDevice(_ device: DeviceAddress) async throws(StoreError) -> Bool

  /// Applies `change`, and lists the account in the directory exactly when it is active (reference 3.7).
  /// - Returns: false, with nothing stored, when the device does not exist.
  func updateDevice(_ device: DeviceAddress, _ change: DeviceChange) async throws(StoreError) -> Bool
}

/// What a pending code creates.
package enum CodePurpose: Sendable { case registration, linking }

package enum LinkOutcome: Sendable, Equatable {
  case linked(DeviceID)
  /// No pending code, an expired one, another one, or no account.
  case codeRefused
  /// So many devices are active already.
  case tooManyDevices(current: Int)
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
  /// The number was registered since the token was drawn, perhaps by that token. Nothing was stored.
  case tokenRefused
  /// The code is right, but an active peer lists the number. The code stays pending; nothing else was stored.
  case numberElsewhere
  /// The proof holds, but the operator lets the number have no account. Nothing was stored.
  case banned
  /// The proof holds, but the account's registration lock is another than the satisfied one. A code stays pending.
  case locked
}

/// Prekeys, by device.
package protocol PreKeyStore: Sendable {
  /// Stores `upload`: the one-time keys in the place of all the device had, the others where it brings them, and its
  /// identity key into the account.
  ///
  /// Device 1 may change the identity key; a linked device must bring the account's, or the first (reference Part 6,
  /// 10). A change removes the signed prekeys of all the account's devices, which the former key signed, except the one
  /// that the upload brings.
  func replacePreKeys(of device: DeviceAddress, with upload: PreKeyUpload) async throws(StoreError)
    -> PreKeyUploadOutcome

  /// Stores `key` while `identityKey`, which signed it, is still the account's.
  /// - Returns: false, with nothing stored, when the device does not exist or the account has another identity key.
  func setSignedPreKey(_ key: SignedPreKey, of device: DeviceAddress, identityKey: String) async throws(StoreError)
    -> Bool
  func signedPreKey(of device: DeviceAddress) async throws(StoreError) -> SignedPreKey?

  /// One-time keys left, the last resort not counted.
  func preKeyCount(of device: DeviceAddress) async throws(StoreError) -> Int

  /// Takes one prekey of each of `devices` that has any: the one-time key with the smallest id, which nobody is
  /// ever given again, or, when there is none, the last-resort key, which stays. The signed prekey comes with it.
  /// - Parameters:
  ///   - oneTime: the devices, of `devices`, whose one-time keys may be taken; the last resort serves for the others.
  ///   - epoch: what the store's epoch has reached, as the caller knows. A store with a lower one is an older state of
  ///     itself: the last resort serves for all.
  /// - Returns: one per device at most, ascending by device, with a prekey or a signed one; registration ids and
  ///   identity key of this moment.
  func drawPreKeys(of account: AccountNumber, devices: [DeviceID], oneTime: [DeviceID], epoch: Int64)
    async throws(StoreError) -> [DrawnPreKey]
}

/// How far this store has come in time, so that an older state of it can be told from the newest
/// (docs/decisions/2026-11-21-restored-stores.md).
package protocol EpochStore: Sendable {
  /// Raises the epoch to `floor` if it is below, else by 1.
  /// - Returns: the epoch before and after.
  func advanceEpoch(atLeast floor: Int64) async throws(StoreError) -> (before: Int64, after: Int64)
  /// Drops every one-time prekey, raises the epoch to at least `floor`, and begins a new generation of the listing: peers
  /// read it anew.
  /// In the same transaction it is noted by whose word, and how far the store was behind; a claim of one peer alone that
  /// was noted before is forgotten: it is answered.
  func setAsideOneTimePreKeys(epoch floor: Int64, by word: RestoreWord, behind: Duration) async throws(StoreError)
  /// The epoch as it is.
  func epoch() async throws(StoreError) -> Int64
  /// Notes that one peer alone claims that the store is an older state; nil forgets what was noted.
  func noteRestoreClaim(by peer: RelayName?, behind: Duration) async throws(StoreError)
  /// Notes that one-time keys are held back from now on, or are not any more.
  func noteHeldBack(_ isHeldBack: Bool) async throws(StoreError)
  /// The last note of each kind.
  func restoreNotes() async throws(StoreError) -> RestoreNotes
  /// Remembers a peer's epoch if it is its highest so far.
  /// - Returns: the highest one before, 0 for none; nil when there is no such peer.
  func rememberEpoch(_ epoch: Int64, of peer: RelayName) async throws(StoreError) -> Int64?
}

/// What is known of attachments; their blobs lie elsewhere.
package protocol AttachmentStore: Sendable {
  /// Notes that `attachment`, without bytes yet, was given out to its account.
  /// - Returns: false, with nothing stored, when the account's attachments and this one exceed `quota`.
  func addAttachment(_ attachment: Attachment, quota: AttachmentQuota) async throws(StoreError) -> Bool
  func attachment(_ id: AttachmentID) async throws(StoreError) -> Attachment?
  /// Notes that the upload of `bytes` is complete, once and for all, and when the blob expires.
  func finishAttachment(_ id: AttachmentID, bytes: Int64, expires: Timestamp, quota: AttachmentQuota)
    async throws(StoreError) -> AttachmentOutcome
  /// Attachments, uploaded or not, that expired before `now`: at most `limit`, the oldest first.
  func expiredAttachments(before now: Timestamp, limit: Int) async throws(StoreError) -> [Attachment]
  func removeAttachments(_ ids: [AttachmentID]) async throws(StoreError)
}

/// Secrets that the relay draws for itself and all its processes share, and the sealing of those that it keeps for
/// others.
package protocol ServerSecretStore: Sendable {
  /// - Returns: the secret under `name`, or nil.
  func serverSecret(_ name: String) async throws(StoreError) -> [UInt8]?
  /// - Returns: the secret under `name`; `candidate`, stored now, when there was none.
  func serverSecret(_ name: String, orStore candidate: [UInt8]) async throws(StoreError) -> [UInt8]
  /// Puts `replacement` in the place of the secret under `name`.
  /// - Returns: false, with nothing stored, unless that was `former`.
  func replaceServerSecret(_ name: String, _ former: [UInt8], with replacement: [UInt8]) async throws(StoreError)
    -> Bool

  /// A key that the relay draws for itself: it lies sealed where there is an encryption key. One that lies as it is, is
  /// sealed by this call then.
  /// - Returns: the key under `name`; what `draw` makes, stored now, when there was none.
  /// - Throws: `.corrupted` when it does not open under the encryption key, nor under the former one.
  func serverKey(_ name: ServerKeyName, orStore draw: @Sendable () -> SecretBytes) async throws(StoreError)
    -> SecretBytes

  /// Seals anew, under the current encryption key, what is sealed under the former one: the signaling keys among the
  /// `limit` devices (1 or more) that follow `last` in a stable order, or are the first. What does not open stays as it
  /// is. With the first devices go the key of contact tokens and the keys of `ServerKeyName`, which are not counted.
  func resealSecrets(after last: DeviceAddress?, limit: Int) async throws(StoreError) -> ResealedSecrets
}

/// The keys that `ServerSecretStore.serverKey` keeps, by the names of their rows.
package enum ServerKeyName: String, Sendable, CaseIterable {
  /// Of oblivious look-ups (docs/directory.md, "Oblivious look-up").
  case oblivious = "directory-oblivious"
  /// Of the tags of what was handed over to peers (`HandOverTag`).
  case handOvers = "federation-hand-overs"
  /// Of the URLs that attachments in a folder are fetched by.
  case attachmentURLs = "attachment-urls"
  /// The key of pending codes and banned numbers: the store keeps a keyed hash of each.
  case pendingCodes = "pending-codes"
  /// The key of the handles by which operators name accounts (`AccountHandle`).
  case accountHandles = "account-handles"

  /// How long such a key is.
  package var byteCount: Int {
    switch self {
    case .oblivious: 48
    case .handOvers, .attachmentURLs, .pendingCodes, .accountHandles: 32
    }
  }
}

/// What one step through the devices came to.
package struct ResealedSecrets: Sendable, Equatable {
  /// How many signaling keys were sealed anew.
  package let count: Int
  /// The last device that was looked at; nil past the end.
  package let last: DeviceAddress?
  package init(count: Int, last: DeviceAddress?) {
    self.count = count
    self.last = last
  }
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

  /// The oldest envelopes of several mailboxes that are not held already, in one round trip: of each at most its limit, by
  /// order of acceptance. What was accepted before a read began is seen by it: a reader that leaves out what it holds, and
  /// keeps no position, misses nothing (docs/delivery.md, "Order").
  /// - Parameter reads: of different mailboxes.
  /// - Returns: one list for each read, in the order of `reads`; possibly empty.
  func waiting(_ reads: [MailboxRead]) async throws(StoreError) -> [[QueuedEnvelope]]

  /// Removes what is at `places` from the mailboxes, all in one transaction, and remembers it as `acknowledge` does.
  /// - Returns: what was there, and is not any more, because of this call.
  func remove(_ places: [MailboxPlace]) async throws(StoreError) -> Set<MailboxPlace>

  /// - Returns: those of `places` that hold an envelope. Reads only.
  func queued(among places: [MailboxPlace]) async throws(StoreError) -> Set<MailboxPlace>

  /// Removes the oldest envelope with that source and timestamp from `mailbox`.
  /// - Returns: what was removed, or nil when nothing matched.
  func acknowledge(source: AccountNumber, timestamp: Timestamp, in mailbox: DeviceAddress) async throws(StoreError)
    -> QueuedEnvelope?

  /// Whether `mailbox` has taken in what `source` sent at `timestamp`: it is queued, or was acknowledged today or
  /// yesterday (UTC). Notices (`MessageType.isNotice`) do not count.
  func hasReceived(from source: AccountNumber, timestamp: Timestamp, in mailbox: DeviceAddress)
    async throws(StoreError) -> Bool

  /// How many envelopes are queued, each number counted to `max` at most.
  /// - Parameter peer: nil where those of peers need not be counted.
  func usage(of mailbox: DeviceAddress, by source: AccountNumber, from peer: RelayName?, countingTo max: Int)
    async throws(StoreError) -> MailboxUsage

  /// Makes room for the days to come and drops envelopes that arrived more than `retention` ago, whole days at a time: two
  /// days at most in one run, or one stretch of days where they are kept in longer ones. Cheap when there is nothing to do;
  /// safe to run on every process at once.
  ///
  /// First it moves the last seen time on and teaches `ClockStore.judge`: a clock that is not believed removes nothing.
  /// - Returns: how many days, or stretches of days, were dropped.
  func maintain(retention: Duration) async throws(StoreError) -> Int
}

package struct MailboxUsage: Sendable, Equatable {
  package let total: Int
  /// Of the total, those that one account sent.
  package let bySource: Int
  /// Those that bear the name of a peer, and of them those of one; 0 where they were not counted.
  package let byPeers: Int
  package let byPeer: Int
  package init(total: Int, bySource: Int, byPeers: Int = 0, byPeer: Int = 0) {
    self.total = total
    self.bySource = bySource
    self.byPeers = byPeers
    self.byPeer = byPeer
  }
}

/// Contact tokens: our accounts' and what peers told us.
package protocol DirectoryStore: Sendable {
  /// - Returns: an entry for each known token, in no order, at most one each: ours before any peer's, else that of the
  ///   first of `claimants`. Inactive accounts are unknown, and those that do not want to be found.
  func entries(for tokens: [ContactToken]) async throws(StoreError) -> [DirectoryEntry]

  /// All local accounts that are listed, or ever were.
  func accountCount() async throws(StoreError) -> Int

  /// Local accounts `offset`..., at most `limit`, in a stable order; empty past the end. Here and in the feed an account that
  /// was found once, and is hidden now, is listed as inactive, without flags. One that never was is in neither.
  func accounts(offset: Int, limit: Int) async throws(StoreError) -> [ListedAccount]

  /// Rises whenever a local account's listing changes. Lets a peer skip what it has seen.
  func accountsRevision() async throws(StoreError) -> Int64

  /// Begins a pass over all that `peer` lists.
  /// - Returns: the pass, above all that were begun before, by whatever process; nil when there is no such peer.
  func beginContacts(of peer: RelayName) async throws(StoreError) -> Int64?

  /// Adds one page of what `peer` lists to the pass `pass` (a number that rises from pass to pass of one peer).
  /// Inactive accounts are un-listed: of those that were listed a tombstone stays. Active ones are added or refreshed; one
  /// that is listed again has its former beginning. Does nothing when the peer does not exist, or its policy wants no copy.
  func mergeContacts(_ page: [ListedAccount], of peer: RelayName, pass: Int64) async throws(StoreError)

  /// Un-lists what the complete pass `pass` did not see, and remembers the peer's revision mark.
  func finishContacts(of peer: RelayName, pass: Int64, mark: String?) async throws(StoreError)

  /// Removes what was copied of a peer that is not to be copied, some at a time.
  /// - Parameter keepingClaims: whether what the peer said when it was asked stays.
  func dropContacts(of peer: RelayName, keepingClaims: Bool) async throws(StoreError)

  /// The last finished pass of `peer`, 0 when there is none, and the mark it ended with.
  func contactsPass(of peer: RelayName) async throws(StoreError) -> (pass: Int64, mark: String?)

  /// The end of the feed of changes to local accounts' listings, whose revisions rise in the order of commits. Who reads
  /// the whole listing afterwards, and follows the feed from here, misses nothing.
  func listingCursor() async throws(StoreError) -> ListingCursor

  /// - Parameter limit: 1 or more.
  /// - Returns: nil when `cursor` is none of this listing's, or ahead of it: the reader begins anew.
  func listingChanges(after cursor: ListingCursor, limit: Int) async throws(StoreError) -> ListingChanges?

  /// Applies changes that `peer` fed us on top of its last finished pass, and remembers `mark`: all or nothing, as
  /// `mergeContacts` does. Does nothing when the peer does not exist, or its policy wants no copy.
  func applyContactChanges(_ changes: [ListedAccount], of peer: RelayName, mark: String) async throws(StoreError)

  /// Which of `tokens` `peer` claims already, be it by a tombstone.
  func keptContacts(among tokens: [ContactToken], of peer: RelayName) async throws(StoreError) -> Set<ContactToken>

  /// How many contacts `peer` claims; none when there is no such peer. The counts are kept by the transactions that add and
  /// remove them: asking for them costs the same however many there are.
  func contactCounts(of peer: RelayName) async throws(StoreError) -> ContactCounts

  /// Counts the contacts of `peer` one by one and corrects `contactCounts`, unless they change meanwhile. It should never be
  /// needed: rows that were written past the schema's triggers are its reason.
  func recountContacts(of peer: RelayName) async throws(StoreError)

  /// The active peers that claim `token`, in the order of precedence: whose claim stands for longest comes first, has the
  /// contact, and alone may speak for its account. Of those that began in the same millisecond, the one whose name sorts
  /// first. Refreshing a contact leaves its beginning, and un-listing it leaves a tombstone, which is a claim; the end of the
  /// tombstone, or of the copy, forgets it.
  func claimants(of token: ContactToken) async throws(StoreError) -> [RelayName]

  /// Which of `tokens` are active accounts of ours that want to be found, for a peer that asks: in no order, at most one each.
  func localEntries(for tokens: [ContactToken]) async throws(StoreError) -> [ListedAccount]
}

extension DirectoryStore {
  /// How many contacts `peer` lists.
  package func contactCount(of peer: RelayName) async throws(StoreError) -> Int {
    try await contactCounts(of: peer).listed
  }
}

/// Peers and invitations.
package protocol PeerStore: Sendable {
  /// All peers, ascending by name.
  func peers() async throws(StoreError) -> [Peer]

  /// Rises whenever a peer is added, changed or removed, by whatever process.
  func peersRevision() async throws(StoreError) -> Int64

  /// Adds `peer`, or replaces what is known under its name if the CA certificate is the same; its policy, trust and
  /// condition then stay as they are.
  /// - Returns: false, with nothing stored, when another CA certificate stands under that name.
  func savePeer(_ peer: Peer) async throws(StoreError) -> Bool

  /// Suspending forgets the used invitations: a repeated redemption must not bring the peer back.
  /// - Parameter suspension: what is said of it; nil for a peer that becomes active.
  /// - Returns: false when there is no such peer.
  func setPeerState(_ state: Peer.State, of name: RelayName, _ suspension: PeerSuspension?) async throws(StoreError)
    -> Bool

  /// Makes the suspended peers active whose suspension ends by `now`.
  /// - Returns: those, ascending by name.
  func resumePeers(endedBy now: Timestamp) async throws(StoreError) -> [RelayName]

  /// Suspends the peer, and if nothing is held for it removes it with every contact token that came from it, what it
  /// confirmed, and the used invitations. What is held is accepted: nothing but `removeHeld` takes it away.
  func removePeer(_ name: RelayName) async throws(StoreError) -> PeerRemoval

  /// Where the peer listens for us, by the operator's word.
  /// - Returns: false when there is no such peer.
  func setPeerURL(_ url: String, of name: RelayName) async throws(StoreError) -> Bool
  /// - Returns: false when there is no such peer.
  func setPeerScopes(_ scopes: Set<Peer.Scope>, of name: RelayName) async throws(StoreError) -> Bool
  /// What is held for the peer stays held. Where its contacts are not to be copied any more, the copy is dropped with its
  /// mark, and all its claims end; where they are copied that were asked for, its claims stay. - Returns: false when there is no such peer.
  func setPeerPolicy(_ policy: PeerPolicy, of name: RelayName) async throws(StoreError) -> Bool
  /// Remembers that ids of the peer's attachments begin with `mark`, unless another peer has it: the first to tell it keeps
  /// it. Of the peer's marks the newest `Peer.attachmentMarksMax` stay. They go with the peer.
  /// - Returns: whether it is news; false, with nothing stored, when it is known, of whomever, or there is no such peer.
  func noteAttachmentMark(_ mark: AttachmentMark, of name: RelayName) async throws(StoreError) -> Bool
  /// Takes up what a statement says, unless one with the same or a higher sequence was taken up before.
  /// - Parameters:
  ///   - caCertificate: what takes the place of `former`; equal to it when nothing changes.
  ///   - former: the peer's CA certificate by which the statement was judged. Another one by now is another peer's word,
  ///     or another peer.
  /// - Returns: false, with nothing stored, when there is no such peer with that certificate or the statement is not
  ///   newer.
  func setPeerTrust(
    _ trust: PeerTrust, caCertificate: [UInt8], replacing former: [UInt8], of name: RelayName
  ) async throws(StoreError) -> Bool
  /// Shares what a process found out. The revision rises only when it is a change of kind: between reachable and not, or
  /// of the fault; a peer that only changes its fault stays unreachable since the first.
  /// - Returns: whether it was one: false too when there is no such peer.
  func setPeerCondition(_ condition: PeerCondition, of name: RelayName) async throws(StoreError) -> Bool

  func saveInvitation(_ invitation: Invitation) async throws(StoreError)

  /// True while an invitation can still be redeemed: only then may an unknown CA's certificate complete a handshake.
  func hasOpenInvitation(now: Timestamp) async throws(StoreError) -> Bool

  /// Invitations that can be redeemed, and those that were and have not ended: ascending by their end.
  func invitations(now: Timestamp) async throws(StoreError) -> [IssuedInvitation]

  /// Forgets an invitation: it cannot be redeemed from here on. A peer that came by it stays.
  /// - Returns: false when there is none.
  func withdrawInvitation(secretHash: [UInt8]) async throws(StoreError) -> Bool

  /// The invitation that `redeemInvitation` would use up; changes nothing.
  /// - Returns: nil when unknown, expired, or used by another.
  func redeemableInvitation(
    secretHash: [UInt8], caFingerprint: [UInt8], now: Timestamp
  ) async throws(StoreError) -> Invitation?

  /// Uses the invitation up for the holder of `caFingerprint` (SHA-256 of its CA's public key) and adds the peer that it
  /// makes, in one transaction: of any number of redemptions at once, by whatever process, one adds a peer. Repeating it
  /// with the same fingerprint before it expires succeeds again, so that an answer lost on the way costs nothing, unless
  /// a peer was suspended or removed meanwhile.
  /// - Parameters:
  ///   - peer: a name that no peer has; nil when the holder is a peer already, of whom nothing changes then.
  ///   - revision: `peersRevision`, read before the peers by which the caller judged.
  func redeemInvitation(
    secretHash: [UInt8], caFingerprint: [UInt8], adding peer: Peer?, judgedAt revision: Int64, now: Timestamp
  ) async throws(StoreError) -> Redemption
}

extension PeerStore {
  /// As `setPeerState`, with nothing said of a suspension.
  package func setPeerState(_ state: Peer.State, of name: RelayName) async throws(StoreError) -> Bool {
    try await setPeerState(state, of: name, nil)
  }
}

/// All durable stores of one relay, over one database.
package protocol Storage: AccountStore, AccountReportStore, AccountRemovalStore, PreKeyStore, EpochStore, MessageStore,
  AttachmentStore, DirectoryFeedStore, ContactClaimStore, ObliviousStore, PeerStore, OutboxStore, HandOverStore,
  WakeStore, NotificationStore, LeaseStore, ServerSecretStore, ContactSealingStore, SchemaStore, ClockStore, AuditStore
{
  /// Whether the store answers just now, for `/readyz`.
  func ping() async throws(StoreError)
  /// Stores some 32 KB and removes them again: whether the store takes writes just now.
  func tryWriting() async throws(StoreError)
  /// The writes that the store refused because its disk is full or failed.
  var refusals: WriteRefusals { get }
  /// Ends every connection. Calls in flight fail with `.unavailable`.
  func close() async
}
