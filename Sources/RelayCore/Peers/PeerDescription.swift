/// A peer as lists of `relay peer` and the console show it.
package struct PeerDescription: Sendable, Equatable {
  package let peer: Peer
  /// The address at which it listens for us, in its one form.
  package let url: String
  /// The ten words of our CA.
  package let ourWords: String
  package let theirWords: String
  /// The words of the CA that the peer has named as its successor.
  package let theirNextWords: String?
  /// When the peer's CA certificate ends.
  package let authorityExpires: Timestamp
  /// SHA-256 of the keys of its CAs, in hexadecimal: the present one, then the one that it named as its successor.
  package let authorities: [String]
  /// The end of the certificate that it presented just now; nil if it was not asked, and where none of its own was
  /// seen.
  package var leafExpires: Timestamp?

  package init(
    _ peer: Peer, url: String, ourWords: String, theirWords: String, theirNextWords: String?,
    authorityExpires: Timestamp, authorities: [String], leafExpires: Timestamp? = nil
  ) {
    self.peer = peer
    self.url = url
    self.ourWords = ourWords
    self.theirWords = theirWords
    self.theirNextWords = theirNextWords
    self.authorityExpires = authorityExpires
    self.authorities = authorities
    self.leafExpires = leafExpires
  }

  package var name: RelayName { peer.name }
  /// The scopes that it may ask of us, in one order.
  package var scopes: [Peer.Scope] { peer.scopes.sorted() }
}
