package import RelayCore

/// A peer as `relay peer list` shows it.
package struct PeerDescription: Sendable, Equatable {
  package let name: RelayName
  package let url: String
  package let state: Peer.State
  package let scopes: [Peer.Scope]
  /// The six words that both operators see.
  package let words: SixWords
  /// When the peer's CA certificate ends.
  package let certificateExpires: Timestamp
  /// SHA-256 of the keys of its CAs, in hexadecimal: the present one, then the one that it named as its successor.
  package let authorities: [String]
  package let added: Timestamp
  package let policy: PeerPolicy
  /// As running processes found out last.
  package let condition: PeerCondition

  package init(_ peer: KnownPeer, ours: [UInt8]) {
    name = peer.name
    url = peer.endpoint.text
    state = peer.peer.state
    scopes = peer.peer.scopes.sorted()
    words = SixWords(ours, peer.fingerprint)
    certificateExpires = peer.authorityExpires
    authorities = peer.fingerprints.map(\.hex)
    added = peer.peer.added
    policy = peer.peer.policy
    condition = peer.peer.condition
  }
}

extension Peer.Scope {
  /// What an invitation covers unless it says otherwise: `directory` allows what `lookup` does.
  package static let usual: Set<Peer.Scope> = [.messages, .keys, .directory, .attachments]
}
