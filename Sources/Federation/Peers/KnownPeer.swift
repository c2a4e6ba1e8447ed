package import RelayCore
import SwiftASN1
import X509

/// A peer with its CA certificate read and its address understood.
package struct KnownPeer: Sendable {
  package let peer: Peer
  package let endpoint: PeerEndpoint
  /// SHA-256 of the CA's public key.
  package let fingerprint: [UInt8]
  let authority: Certificate

  package var name: RelayName { peer.name }
  package var isActive: Bool { peer.state == .active }
  /// When its CA certificate ends.
  package var authorityExpires: Timestamp { authority.validUntil }

  /// - Returns: nil when the stored certificate or URL cannot be read: such a peer is nobody.
  package init?(_ peer: Peer) {
    // What the store holds was checked when it was saved; damaged bytes have nothing to say but that.
    guard let authority = try? Certificate(derEncoded: peer.caCertificate), let endpoint = PeerEndpoint(peer.url)
    else { return nil }
    self.init(peer: peer, authority: authority, endpoint: endpoint)
  }

  init(peer: Peer, authority: Certificate, endpoint: PeerEndpoint) {
    self.peer = peer
    self.authority = authority
    self.endpoint = endpoint
    fingerprint = authority.keyFingerprint
  }
}

/// The peers as one reading of the store.
struct PeerTable: Sendable {
  let byName: [RelayName: KnownPeer]
  /// By the CA's key. A key that stands under two names is left out: it would prove neither.
  private let byFingerprint: [[UInt8]: KnownPeer]
  private let bySubject: [DistinguishedName: [KnownPeer]]
  /// Stored peers that cannot be read.
  let unreadable: [RelayName]

  init(_ peers: [Peer] = []) {
    let known = peers.compactMap { KnownPeer($0) }
    byName = Dictionary(known.map { ($0.name, $0) }) { first, _ in first }
    unreadable = peers.map(\.name).filter { [byName] in byName[$0] == nil }
    let groups = Dictionary(grouping: known, by: \.fingerprint)
    byFingerprint = groups.compactMapValues { $0.count == 1 ? $0.first : nil }
    bySubject = Dictionary(grouping: byFingerprint.values, by: \.authority.subject)
  }

  func peer(fingerprint: [UInt8]) -> KnownPeer? { byFingerprint[fingerprint] }

  /// The peer whose CA signed `leaf`.
  func issuer(of leaf: Certificate) -> KnownPeer? {
    bySubject[leaf.issuer]?.first { leaf.isIssued(by: $0.authority) }
  }
}
