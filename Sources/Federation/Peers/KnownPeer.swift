package import RelayCore
import SwiftASN1
import X509

/// A peer with its CA certificates read and its address understood.
package struct KnownPeer: Sendable {
  package let peer: Peer
  package let endpoint: PeerEndpoint
  /// The CAs that may vouch for it: the present one, then the one that it named as its successor, if it did.
  let authorities: [Certificate]
  /// SHA-256 of each CA's public key, in the same order.
  package let fingerprints: [[UInt8]]
  private let revokedSerials: Set<[UInt8]>

  package var name: RelayName { peer.name }
  package var isActive: Bool { peer.state == .active }
  /// The present CA.
  var authority: Certificate { authorities[0] }
  /// SHA-256 of the present CA's public key.
  package var fingerprint: [UInt8] { fingerprints[0] }
  /// When its present CA certificate ends.
  package var authorityExpires: Timestamp { authority.validUntil }

  /// - Returns: nil when the stored certificate or URL cannot be read: such a peer is nobody.
  package init?(_ peer: Peer) {
    // The stored data was checked when it was saved. Damaged bytes say nothing else.
    guard let authority = try? Certificate(derEncoded: peer.caCertificate), let endpoint = PeerEndpoint(peer.url)
    else { return nil }
    self.init(peer: peer, authority: authority, endpoint: endpoint)
  }

  init(peer: Peer, authority: Certificate, endpoint: PeerEndpoint) {
    self.peer = peer
    self.endpoint = endpoint
    // As above: a successor that cannot be read vouches for nothing, and the present CA goes on.
    let next = peer.trust.nextCACertificate.flatMap { try? Certificate(derEncoded: $0) }
    authorities = [authority] + (next.map { [$0] } ?? [])
    fingerprints = authorities.map(\.keyFingerprint)
    revokedSerials = Set(peer.trust.revokedSerials)
  }

  /// The CA of this peer that signed `leaf`.
  func authority(of leaf: Certificate) -> Certificate? { authorities.first(where: leaf.isIssued(by:)) }

  /// The reason why `leaf` does not prove this peer; nil if it does. One of `authorities` signed `leaf`, and it is
  /// valid now.
  func fault(of leaf: Certificate) -> ChainFault? {
    if leaf.relayName != name { return .wrongName(found: leaf.relayName, expected: name) }
    return isRevoked(leaf.serial) ? .revoked(serial: leaf.serial) : nil
  }

  /// - Parameter serial: as `Certificate.serial`.
  func isRevoked(_ serial: [UInt8]) -> Bool { revokedSerials.contains(serial) }
}

/// The peers as one reading of the store.
struct PeerTable: Sendable {
  let byName: [RelayName: KnownPeer]
  /// By the key of either CA. A key that stands under two names is left out: it would prove neither. Naming another
  /// peer's CA as one's own successor takes nothing from that peer.
  private let byFingerprint: [[UInt8]: KnownPeer]
  private let bySubject: [DistinguishedName: [(authority: Certificate, peer: KnownPeer)]]
  /// The peer whose attachments' ids begin with a mark. The store gives each mark to one peer alone.
  let byMark: [AttachmentMark: RelayName]
  /// Whether there is any active peer that clients may reach without naming it.
  let routesImplicitly: Bool
  /// Stored peers that cannot be read.
  let unreadable: [RelayName]

  init(_ peers: [Peer] = []) {
    let known = peers.compactMap { KnownPeer($0) }
    byName = Dictionary(known.map { ($0.name, $0) }) { first, _ in first }
    byMark = Dictionary(known.flatMap { peer in peer.peer.attachmentMarks.map { ($0, peer.name) } }) { first, _ in first
    }
    routesImplicitly = known.contains { $0.isActive && $0.peer.policy.routesImplicitly }
    unreadable = peers.map(\.name).filter { [byName] in byName[$0] == nil }
    let present = Dictionary(grouping: known, by: \.fingerprint)
    let next = Dictionary(grouping: known.filter { $0.authorities.count > 1 }) { $0.fingerprints[1] }
    let byFingerprint = present.merging(next) { present, _ in present }
      .compactMapValues { $0.count == 1 ? $0.first : nil }
    self.byFingerprint = byFingerprint
    let pairs = byFingerprint.flatMap { fingerprint, peer in
      zip(peer.authorities, peer.fingerprints).filter { $0.1 == fingerprint }.map { (authority: $0.0, peer: peer) }
    }
    bySubject = Dictionary(grouping: pairs) { $0.authority.subject }
  }

  func peer(fingerprint: [UInt8]) -> KnownPeer? { byFingerprint[fingerprint] }

  /// The peer one of whose CAs signed `leaf`.
  func issuer(of leaf: Certificate) -> KnownPeer? {
    bySubject[leaf.issuer]?.first { leaf.isIssued(by: $0.authority) }?.peer
  }
}

extension KnownPeer {
  /// Whether a copy of its listing is kept here.
  var isCopied: Bool { isActive && coversContacts && peer.policy.contacts == .copy }
  /// Whether it is asked at look-up time.
  var isQueried: Bool { isActive && coversContacts && peer.policy.contacts == .query }

  /// A peering that leaves the directory out in one direction leaves it out in the other, unless its operators name
  /// different scopes: then `lookup` alone will do.
  private var coversContacts: Bool { !peer.scopes.isDisjoint(with: [.directory, .lookup]) }
}
