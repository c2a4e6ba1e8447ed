package import RelayCore

/// An invitation as `relay peer accept` shows it before anything is stored, here or at the inviter.
package struct PeeringOffer: Sendable {
  let code: InvitationCode
  /// The inviter as the store has it already.
  let former: Peer?
  /// The scopes that the inviter may ask of us.
  package let grants: Set<Peer.Scope>
  package let ourWords: AuthorityWords

  package var name: RelayName { code.name }
  package var url: String { code.endpoint.text }
  /// The scopes that we may ask of the inviter, as the invitation says.
  package var gets: Set<Peer.Scope> { code.scopes }
  /// The words of the CA that the invitation names. The inviter will have to prove this CA.
  package var theirWords: AuthorityWords { AuthorityWords(code.fingerprint) }
  /// Whether nothing but the way to the peer is tried, and its scopes stay as the operator set them.
  package var isPeerAlready: Bool { former != nil }
}

/// A peering that stands on both sides.
package struct AcceptedPeering: Sendable {
  package let peer: PeerDescription
  /// The scopes that we may ask of the peer, as the peer says.
  package let gets: [Peer.Scope]
}
