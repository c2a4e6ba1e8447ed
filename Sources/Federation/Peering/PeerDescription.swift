package import RelayCore

extension PeerDescription {
  /// - Parameter ours: the fingerprint of our CA.
  package init(_ peer: KnownPeer, ours: [UInt8]) {
    self.init(
      peer.peer, url: peer.endpoint.text, ourWords: AuthorityWords(ours).description,
      theirWords: AuthorityWords(peer.fingerprint).description,
      theirNextWords: peer.fingerprints.dropFirst().first.map { AuthorityWords($0).description },
      authorityExpires: peer.authorityExpires, authorities: peer.fingerprints.map(\.hex))
  }
}

extension Peer.Scope {
  /// The scopes of an invitation that names none. `directory` allows everything that `lookup` allows.
  package static let usual: Set<Peer.Scope> = [.messages, .keys, .directory, .attachments]
}
