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

  /// Suspends the peer. If nothing is held for it, removes it with every contact token that came from it, what it
  /// confirmed, and the used invitations. Held messages are accepted: only `removeHeld` takes them away.
  func removePeer(_ name: RelayName) async throws(StoreError) -> PeerRemoval

  /// Sets the address at which the peer listens for us, by the operator's word.
  /// - Returns: false when there is no such peer.
  func setPeerURL(_ url: String, of name: RelayName) async throws(StoreError) -> Bool
  /// - Returns: false when there is no such peer.
  func setPeerScopes(_ scopes: Set<Peer.Scope>, of name: RelayName) async throws(StoreError) -> Bool
  /// Held messages stay held. If the peer's contacts are not to be copied any more, the copy is dropped with its
  /// mark, and all its claims end. If contacts are copied that were asked for before, its claims stay.
  /// - Returns: false when there is no such peer.
  func changePeerPolicy(_ change: PeerPolicyChange, of name: RelayName) async throws(StoreError) -> Bool
  /// Remembers that ids of the peer's attachments begin with `mark`, unless another peer has it: the first to tell it
  /// keeps it. The peer's newest `Peer.attachmentMarksMax` marks stay. They go with the peer.
  /// - Returns: whether it is news; false, with nothing stored, if any peer has it already or there is no such peer.
  func noteAttachmentMark(_ mark: AttachmentMark, of name: RelayName) async throws(StoreError) -> Bool
  /// Takes up what a statement says, unless one with the same or a higher sequence was taken up before.
  /// - Parameters:
  ///   - caCertificate: what takes the place of `former`; equal to it when nothing changes.
  ///   - former: the peer's CA certificate by which the statement was judged. Another one by now is another peer's
  ///     word,
  ///     or another peer.
  /// - Returns: false, with nothing stored, when there is no such peer with that certificate or the statement is not
  ///   newer.
  func setPeerTrust(
    _ trust: PeerTrust, caCertificate: [UInt8], replacing former: [UInt8], of name: RelayName
  ) async throws(StoreError) -> Bool
  /// Shares what a process found out. The revision rises only when it is a change of kind: between reachable and not,
  /// or of the fault; a peer that only changes its fault stays unreachable since the first.
  /// - Returns: whether it was one: false too when there is no such peer.
  func setPeerCondition(_ condition: PeerCondition, of name: RelayName) async throws(StoreError) -> Bool

  /// Stores an invitation that can be redeemed from here on. One with the same secret is replaced, used or not.
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

  /// Uses the invitation up for the holder of `caFingerprint` (SHA-256 of its CA's public key) and adds the peer that
  /// it makes, in one transaction: of any number of redemptions at once, by whatever process, one adds a peer.
  /// Repeating it with the same fingerprint before it expires succeeds again, so that an answer lost on the way costs
  /// nothing, unless a peer was suspended or removed meanwhile.
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
