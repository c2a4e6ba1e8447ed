import RelayCore

/// The certificates by which this relay and its peers know each other. A peer's leaf is known once it has shown it to
/// this process.
package struct FederationCertificates: Sendable {
  private let identity: FederationIdentity
  private let registry: PeerRegistry

  package init(identity: FederationIdentity, registry: PeerRegistry) {
    self.identity = identity
    self.registry = registry
  }

  package var all: [WatchedCertificate] {
    let peers = registry.peers
    identity.seenLeaves.keep(only: Set(peers.map(\.name)))
    return own + peers.flatMap(certificates)
  }

  private var own: [WatchedCertificate] {
    let credentials = identity.credentials
    return [
      WatchedCertificate(
        holder: nil, kind: .leaf, serial: credentials.leaf.serial, validUntil: credentials.leafExpires),
      WatchedCertificate(
        holder: nil, kind: .ca, serial: credentials.authority.serial, validUntil: credentials.authorityExpires),
    ]
  }

  private func certificates(of peer: KnownPeer) -> [WatchedCertificate] {
    let authorities = peer.authorities.map {
      WatchedCertificate(holder: peer.name, kind: .ca, serial: $0.serial, validUntil: $0.validUntil)
    }
    guard let leaf = identity.seenLeaves.leaf(of: peer.name) else { return authorities }
    return authorities + [
      WatchedCertificate(holder: peer.name, kind: .leaf, serial: leaf.serial, validUntil: leaf.validUntil)
    ]
  }
}
