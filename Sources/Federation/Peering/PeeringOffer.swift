package import RelayCore

/// An invitation as `relay peer accept` shows it before anything is stored, here or at the inviter.
package struct PeeringOffer: Sendable {
  let code: InvitationCode
  /// The inviter as the store has it already.
  let former: Peer?
  /// What the inviter may ask of us.
  package let grants: Set<Peer.Scope>
  package let ourWords: AuthorityWords

  package var name: RelayName { code.name }
  package var url: String { code.endpoint.text }
  /// What we may ask of the inviter, as the invitation says.
  package var gets: Set<Peer.Scope> { code.scopes }
  /// Of the CA that the invitation names, and that the inviter will have to prove.
  package var theirWords: AuthorityWords { AuthorityWords(code.fingerprint) }
  /// Whether nothing but the way to the peer is tried, and its scopes stay as the operator set them.
  package var isPeerAlready: Bool { former != nil }
}

/// A peering that stands on both sides.
package struct AcceptedPeering: Sendable {
  package let peer: PeerDescription
  /// What we may ask of the peer, by its own word.
  package let gets: [Peer.Scope]
}
