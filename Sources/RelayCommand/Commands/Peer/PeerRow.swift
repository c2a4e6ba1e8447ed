import Federation
import RelayCore

/// A peer as JSON.
struct PeerRow: Encodable {
  let name: String
  let url: String
  let state: String
  let scopes: [String]
  let words: String
  let certificateExpires: String
  let authorities: [String]
  let added: String
  let hold: Bool
  let contacts: String
  let reachable: Bool
  /// In one word; nil when it is reachable.
  let fault: String?
  let faultSince: String?

  init(_ peer: PeerDescription) {
    name = peer.name.text
    url = peer.url
    state = peer.state.rawValue
    scopes = peer.scopes.map(\.rawValue)
    words = peer.words.description
    certificateExpires = peer.certificateExpires.iso8601
    authorities = peer.authorities
    added = peer.added.iso8601
    hold = peer.policy.holdsMessages
    contacts = peer.policy.contacts.rawValue
    reachable = peer.condition.isReachable
    switch peer.condition {
    case .reachable: (fault, faultSince) = (nil, nil)
    case .unreachable(let reason, let since): (fault, faultSince) = (reason.rawValue, since.iso8601)
    }
  }

  /// `yes`, `network since 2026-01-01T00:00:00Z`, `-` for a peer that is not asked.
  var reachability: String {
    guard state == Peer.State.active.rawValue else { return "-" }
    guard let fault, let faultSince else { return "yes" }
    return "\(fault) since \(faultSince)"
  }
}
