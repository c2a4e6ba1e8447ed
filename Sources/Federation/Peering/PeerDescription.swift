package import RelayCore

/// A peer as `relay peer list` shows it.
package struct PeerDescription: Sendable, Equatable {
  package let name: RelayName
  package let url: String
  package let state: Peer.State
  package let suspension: PeerSuspension?
  /// The scopes that it may ask of us.
  package let scopes: [Peer.Scope]
  package let ourWords: AuthorityWords
  package let theirWords: AuthorityWords
  /// The words of the CA that the peer has named as its successor.
  package let theirNextWords: AuthorityWords?
  /// When the peer's CA certificate ends.
  package let authorityExpires: Timestamp
  /// SHA-256 of the keys of its CAs, in hexadecimal: the present one, then the one that it named as its successor.
  package let authorities: [String]
  package let added: Timestamp
  package let policy: PeerPolicy
  /// As running processes found out last.
  package let condition: PeerCondition

  /// - Parameter ours: the fingerprint of our CA.
  package init(_ peer: KnownPeer, ours: [UInt8]) {
    name = peer.name
    url = peer.endpoint.text
    state = peer.peer.state
    suspension = peer.peer.suspension
    scopes = peer.peer.scopes.sorted()
    ourWords = AuthorityWords(ours)
    theirWords = AuthorityWords(peer.fingerprint)
    theirNextWords = peer.fingerprints.dropFirst().first.map { AuthorityWords($0) }
    authorityExpires = peer.authorityExpires
    authorities = peer.fingerprints.map(\.hex)
    added = peer.peer.added
    policy = peer.peer.policy
    condition = peer.peer.condition
  }
}

extension Peer.Scope {
  /// The scopes of an invitation that names none. `directory` allows everything that `lookup` allows.
  package static let usual: Set<Peer.Scope> = [.messages, .keys, .directory, .attachments]
}
