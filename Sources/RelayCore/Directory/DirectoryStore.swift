/// Contact tokens: our accounts' and what peers told us.
package protocol DirectoryStore: Sendable {
  /// - Returns: an entry for each known token, in no order, at most one each: ours before any peer's, else that of the
  ///   first of `claimants`. Inactive accounts are unknown, and those that do not want to be found.
  func entries(for tokens: [ContactToken]) async throws(StoreError) -> [DirectoryEntry]

  /// All local accounts that are listed, or ever were.
  func accountCount() async throws(StoreError) -> Int

  /// Local accounts `offset`..., at most `limit`, in a stable order; empty past the end. Here and in the feed an
  /// account that was found once, and is hidden now, is listed as inactive, without flags. One that never was is in
  /// neither.
  func accounts(offset: Int, limit: Int) async throws(StoreError) -> [ListedAccount]

  /// Rises whenever a local account's listing changes. Lets a peer skip what it has seen.
  func accountsRevision() async throws(StoreError) -> Int64

  /// Begins a pass over all that `peer` lists.
  /// - Returns: the pass, above all that were begun before, by whatever process; nil when there is no such peer.
  func beginContacts(of peer: RelayName) async throws(StoreError) -> Int64?

  /// Adds one page of what `peer` lists to the pass `pass` (a number that rises from pass to pass of one peer).
  /// Inactive accounts are un-listed: of those that were listed a tombstone stays. Active ones are added or refreshed;
  /// one that is listed again has its former beginning. Does nothing when the peer does not exist, or its policy wants
  /// no copy.
  func mergeContacts(_ page: [ListedAccount], of peer: RelayName, pass: Int64) async throws(StoreError)

  /// Un-lists what the complete pass `pass` did not see, and remembers the peer's revision mark.
  func finishContacts(of peer: RelayName, pass: Int64, mark: String?) async throws(StoreError)

  /// Removes what was copied of a peer that is not to be copied, some at a time.
  /// - Parameter keepingClaims: whether what the peer said when it was asked stays.
  func dropContacts(of peer: RelayName, keepingClaims: Bool) async throws(StoreError)

  /// The last finished pass of `peer`, 0 when there is none, and the mark it ended with.
  func contactsPass(of peer: RelayName) async throws(StoreError) -> (pass: Int64, mark: String?)

  /// The end of the feed of changes to local accounts' listings, whose revisions rise in the order of commits. A
  /// reader that then reads the whole listing, and follows the feed from here, misses nothing.
  func listingCursor() async throws(StoreError) -> ListingCursor

  /// - Parameter limit: 1 or more.
  /// - Returns: nil when `cursor` is none of this listing's, or ahead of it: the reader begins anew.
  func listingChanges(after cursor: ListingCursor, limit: Int) async throws(StoreError) -> ListingChanges?

  /// Applies changes that `peer` fed us on top of its last finished pass, and remembers `mark`: all or nothing, as
  /// `mergeContacts` does. Does nothing when the peer does not exist, or its policy wants no copy.
  func applyContactChanges(_ changes: [ListedAccount], of peer: RelayName, mark: String) async throws(StoreError)

  /// Which of `tokens` `peer` claims already, be it by a tombstone.
  func keptContacts(among tokens: [ContactToken], of peer: RelayName) async throws(StoreError) -> Set<ContactToken>

  /// How many contacts `peer` claims; none when there is no such peer. The counts are kept by the transactions that
  /// add and remove them: asking for them costs the same however many there are.
  func contactCounts(of peer: RelayName) async throws(StoreError) -> ContactCounts

  /// Counts the contacts of `peer` one by one and corrects `contactCounts`, unless they change meanwhile. It should
  /// never be needed: rows that were written past the schema's triggers are its reason.
  func recountContacts(of peer: RelayName) async throws(StoreError)

  /// The active peers that claim `token`, in the order of precedence. The peer with the oldest claim comes first, has
  /// the contact, and alone may speak for its account. If claims began in the same millisecond, the name that sorts
  /// first wins.
  ///
  /// Refreshing a contact leaves its beginning. Un-listing it leaves a tombstone, which is a claim. The end of the
  /// tombstone, or of the copy, forgets it.
  func claimants(of token: ContactToken) async throws(StoreError) -> [RelayName]

  /// Which of `tokens` are active accounts of ours that want to be found, for a peer that asks: in no order, at most
  /// one each.
  func localEntries(for tokens: [ContactToken]) async throws(StoreError) -> [ListedAccount]
}

/// The directory's knowledge of one token.
package struct DirectoryEntry: Sendable, Equatable {
  package let token: ContactToken
  /// nil for an account of this relay.
  package let relay: RelayName?
  package let supportsSMS: Bool
  package let voice: Bool
  package init(token: ContactToken, relay: RelayName?, supportsSMS: Bool, voice: Bool) {
    self.token = token
    self.relay = relay
    self.supportsSMS = supportsSMS
    self.voice = voice
  }
}

/// One account in the listing that peers read (reference 1.13.2, `user_tokens`).
package struct ListedAccount: Sendable, Equatable {
  package let token: ContactToken
  package let isInactive: Bool
  package let supportsSMS: Bool
  package let voice: Bool
  package init(token: ContactToken, isInactive: Bool, supportsSMS: Bool, voice: Bool) {
    self.token = token
    self.isInactive = isInactive
    self.supportsSMS = supportsSMS
    self.voice = voice
  }
}
