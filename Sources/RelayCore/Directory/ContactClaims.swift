/// How many contacts a peer claims.
package struct ContactCounts: Sendable, Equatable {
  /// The number of contacts that it lists.
  package let listed: Int
  /// The number of contacts that it lists no longer, or was only asked for. Their claims end by themselves.
  package let unlisted: Int
  /// The number of claims that take room.
  package var claims: Int { listed + unlisted }
  package init(listed: Int, unlisted: Int) {
    self.listed = listed
    self.unlisted = unlisted
  }
  package static let none = ContactCounts(listed: 0, unlisted: 0)
}

/// One peer's claim to a contact, as the operator is shown it.
package struct ContactClaim: Sendable, Equatable {
  package let peer: RelayName
  /// The time since which the peer claims it. A claim that the operator has put first bears a time before all others,
  /// not a real one.
  package let since: Timestamp
  /// Since when the peer lists it no longer, or when it last said so to whoever asked; nil while it lists it.
  package let unlisted: Timestamp?
  /// False while the peer is suspended: its claim rests.
  package let stands: Bool
  package init(peer: RelayName, since: Timestamp, unlisted: Timestamp?, stands: Bool) {
    self.peer = peer
    self.since = since
    self.unlisted = unlisted
    self.stands = stands
  }
}

/// The holder of a contact that peers were asked for.
package struct ContactOwner: Sendable, Equatable {
  package enum Holder: Sendable, Equatable {
    /// The number has an account here.
    case local
    /// The peer whose claim stands for longest. `isDue`: its claim was last renewed more than a day ago.
    case peer(RelayName, isDue: Bool)
  }
  package let token: ContactToken
  package let holder: Holder
  package init(token: ContactToken, holder: Holder) {
    self.token = token
    self.holder = holder
  }
}

/// The outcome for claims whose time was over.
package struct EndedClaims: Sendable, Equatable {
  package let ended: Int
  /// The number of these that gave a contact to another peer.
  package let passed: Int
  package init(ended: Int, passed: Int) {
    self.ended = ended
    self.passed = passed
  }
}

/// Contacts of one peer that another claims as well.
package struct ContestedContacts: Sendable, Equatable {
  /// The contacts that the peer claims, and that another peer or this relay has.
  package var others: Int
  /// The contacts that the peer has, and that another claims.
  package var own: Int
  package init(others: Int = 0, own: Int = 0) {
    self.others = others
    self.own = own
  }
}

/// The ownership of contacts (docs/federation.md, "Whose a contact is").
package protocol ContactClaimStore: Sendable {
  /// The owner of each of `tokens`, in no order. Tokens without an owner are left out. A peer owns nothing while it
  /// is suspended or its contacts are not to be found.
  func contactOwners(of tokens: [ContactToken]) async throws(StoreError) -> [ContactOwner]

  /// Remembers that `peer`, which is asked instead of copied, claims `tokens`, or that it still does. A token that
  /// another peer claims is not its own, and beyond `max` claims nothing new is remembered.
  /// - Returns: those that are remembered now.
  func rememberClaims(to tokens: [ContactToken], of peer: RelayName, keepingAtMost max: Int) async throws(StoreError)
    -> Set<ContactToken>

  /// Ends claims of `peer`, the oldest first and some at a time, that were un-listed more than `days` days ago.
  func endClaims(of peer: RelayName, afterDays days: Int) async throws(StoreError) -> EndedClaims

  /// All claims to `token`, who has it first: those that stand before those that rest.
  func claims(to token: ContactToken) async throws(StoreError) -> [ContactClaim]

  /// Puts the claim of `peer` before all others; where it has none, it has one from now on that ends as a tombstone
  /// does.
  /// - Returns: who had the contact before: nil for nobody, `peer` when nothing changed.
  /// - Throws: `.unavailable` too when there is no such peer.
  func setContactOwner(of token: ContactToken, to peer: RelayName) async throws(StoreError) -> RelayName?

  /// Counts as passed the contacts that another peer claims and that `peer` stands first for, whether or not its
  /// claims rest: to be called when the operator has had them rest or count again, and before they are removed. Reads
  /// all claims of `peer`, some at a time.
  /// - Returns: how many.
  func notePasses(of peer: RelayName) async throws(StoreError) -> Int

  /// How many contacts have passed from one peer to another since this was last asked, by whatever process: at the end
  /// of a claim, or by the operator's word.
  func takeUntoldPasses() async throws(StoreError) -> Int64

  /// The contacts that several claim, by peer; those of which there are none are left out. Reads all claims, some at a
  /// time.
  func contestedContacts() async throws(StoreError) -> [RelayName: ContestedContacts]
}
