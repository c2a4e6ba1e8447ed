import RelayCore

/// A peer as JSON.
struct PeerRow: Encodable {
  let name: String
  let url: String
  let state: String
  /// The reason and the end of a suspension, where they were given.
  let suspensionReason: String?
  let suspendedUntil: String?
  /// The scopes that it may ask of us.
  let scopes: [String]
  /// The scopes that we may ask of it, by its word just now; nil if it was not asked.
  let gets: [String]?
  let ourWords: String
  let theirWords: String
  /// The words of the CA that takes over; nil without a roll-over.
  let theirNextWords: String?
  /// When the certificate ends that it presented just now; nil where none of its own was seen.
  let leafExpires: String?
  /// When its CA's certificate ends.
  let authorityExpires: String
  let authorities: [String]
  let added: String
  let hold: Bool
  let contacts: String
  /// Whether clients reach it without naming it, where `federation.implicit` lets them.
  let implicit: Bool
  let reachable: Bool
  /// In one word; nil when it is reachable.
  let fault: String?
  let faultSince: String?
  /// Counted for `peer list` alone.
  let contested: Contested?

  struct Contested: Encodable {
    /// Contacts that the peer claims, and another peer or this relay has.
    let lists: Int
    /// Contacts that the peer has, and another claims.
    let has: Int
  }

  init(_ described: PeerDescription, gets: [Peer.Scope]? = nil, contested: ContestedContacts? = nil) {
    let peer = described.peer
    self.contested = contested.map { Contested(lists: $0.others, has: $0.own) }
    name = peer.name.text
    url = described.url
    state = peer.state.rawValue
    suspensionReason = peer.suspension?.reason
    suspendedUntil = peer.suspension?.until?.iso8601
    scopes = described.scopes.map(\.rawValue)
    self.gets = gets?.map(\.rawValue)
    ourWords = described.ourWords
    theirWords = described.theirWords
    theirNextWords = described.theirNextWords
    leafExpires = described.leafExpires?.iso8601
    authorityExpires = described.authorityExpires.iso8601
    authorities = described.authorities
    added = peer.added.iso8601
    hold = peer.policy.holdsMessages
    contacts = peer.policy.contacts.rawValue
    implicit = peer.policy.routesImplicitly
    reachable = peer.condition.isReachable
    switch peer.condition {
    case .reachable: (fault, faultSince) = (nil, nil)
    case .unreachable(let reason, let since): (fault, faultSince) = (reason.rawValue, since.iso8601)
    }
  }

  /// For people, a line each.
  var table: [[String]] {
    [
      ["name", name], ["url", url], ["state", fullState], ["reachable", reachability],
      ["grants them", scopes.joined(separator: ",")], ["hold", hold ? "on" : "off"], ["contacts", contacts],
      ["implicit", implicit ? "on" : "off"], ["our words", ourWords], ["their words", theirWords],
    ] + (theirNextWords.map { [["their next words", $0]] } ?? []) + [
      ["leaf until", leafExpires ?? "-"], ["CA until", authorityExpires],
      ["CA keys", authorities.joined(separator: " ")], ["added", added],
    ]
  }

  /// `active`, or `suspended until 2026-12-01T00:00:00Z: maintenance`.
  var fullState: String {
    [suspendedUntil.map { "until \($0)" }, suspensionReason.map { ": \($0)" }].compactMap(\.self).reduce(state) {
      $1.hasPrefix(":") ? $0 + $1 : "\($0) \($1)"
    }
  }

  /// `yes`, `network since 2026-01-01T00:00:00Z`, `-` for a peer that is not asked.
  var reachability: String {
    guard state == Peer.State.active.rawValue else { return "-" }
    guard let fault, let faultSince else { return "yes" }
    return "\(fault) since \(faultSince)"
  }
}
