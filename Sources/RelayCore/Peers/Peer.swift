/// Another relay that this operator trusts (docs/federation.md).
package struct Peer: Sendable, Equatable {
  package enum State: String, Sendable { case active, suspended }
  /// A kind of request that a peer may make to us.
  package enum Scope: String, Sendable, CaseIterable, Comparable {
    case messages, keys
    /// To read our listing, whole and as it changes, and what `lookup` allows.
    case directory
    /// To ask which of some contact tokens are ours, and nothing else of the directory.
    case lookup
    case attachments
    package static func < (a: Self, b: Self) -> Bool { a.rawValue < b.rawValue }
  }

  package let name: RelayName
  /// The address at which it listens for us: `https://host:port`.
  package var url: String
  /// Its CA certificate, DER: the anchor that may vouch for it, beside `trust.nextCACertificate`.
  package var caCertificate: [UInt8]
  package var state: State
  /// Why it is suspended and until when, where that was said; nil while it is active.
  package var suspension: PeerSuspension?
  package var scopes: Set<Scope>
  package var added: Timestamp
  package var policy: PeerPolicy
  package var trust: PeerTrust
  package var condition: PeerCondition
  /// The marks that the ids of its attachments begin with, as it has told: at most `attachmentMarksMax`, the newest
  /// last.
  package var attachmentMarks: [AttachmentMark]
  /// Ids under a mark of before are asked for until they have expired.
  package static let attachmentMarksMax = 4

  package init(
    name: RelayName, url: String, caCertificate: [UInt8], state: State, scopes: Set<Scope>, added: Timestamp,
    policy: PeerPolicy = PeerPolicy(), trust: PeerTrust = PeerTrust(), condition: PeerCondition = .reachable,
    attachmentMarks: [AttachmentMark] = [], suspension: PeerSuspension? = nil
  ) {
    self.suspension = suspension
    self.name = name
    self.url = url
    self.caCertificate = caCertificate
    self.state = state
    self.scopes = scopes
    self.added = added
    self.policy = policy
    self.trust = trust
    self.condition = condition
    self.attachmentMarks = attachmentMarks
  }

  /// The same peer on the same terms, whether or not it can be reached.
  package var regardlessOfCondition: Peer {
    var peer = self
    peer.condition = .reachable
    return peer
  }
}

/// The reason and the end of a suspension, as the operator gave them.
package struct PeerSuspension: Sendable, Equatable {
  /// For this operator's own people.
  package let reason: String?
  /// From then on the peer is active again, by itself.
  package let until: Timestamp?

  /// - Returns: nil when nothing is said.
  package init?(reason: String?, until: Timestamp?) {
    guard reason != nil || until != nil else { return nil }
    self.reason = reason
    self.until = until
  }
}

/// The operator's own choices for one peer.
package struct PeerPolicy: Sendable, Equatable {
  /// How the peer's contacts are found.
  package enum Contacts: String, Sendable, CaseIterable {
    /// We keep a copy of its listing.
    case copy
    /// We ask it at look-up time.
    case query
    /// Not at all.
    case none
  }
  /// Whether messages for it are accepted into the outbox while it cannot be reached, instead of refused.
  package var holdsMessages: Bool
  package var contacts: Contacts
  /// Whether requests of clients that name no relay are carried to it, where it has the number or the attachment.
  package var routesImplicitly: Bool
  package init(holdsMessages: Bool = false, contacts: Contacts = .copy, routesImplicitly: Bool = true) {
    self.holdsMessages = holdsMessages
    self.contacts = contacts
    self.routesImplicitly = routesImplicitly
  }
}

/// The parts of a policy that change; nil leaves a part as it is, so that two changes at once both hold.
package struct PeerPolicyChange: Sendable, Equatable {
  package var holdsMessages: Bool?
  package var contacts: PeerPolicy.Contacts?
  package var routesImplicitly: Bool?
  package init(
    holdsMessages: Bool? = nil, contacts: PeerPolicy.Contacts? = nil, routesImplicitly: Bool? = nil
  ) {
    self.holdsMessages = holdsMessages
    self.contacts = contacts
    self.routesImplicitly = routesImplicitly
  }
  package var isEmpty: Bool { self == PeerPolicyChange() }
}

/// The signed statements of a peer's CA since the peering (docs/federation-wire.md, "Authority statements").
package struct PeerTrust: Sendable, Equatable {
  /// The CA that takes over, DER: it may vouch for the peer too.
  package var nextCACertificate: [UInt8]?
  /// Serial numbers of leaves that prove nothing any more, big-endian; ascending.
  package var revokedSerials: [[UInt8]]
  /// The sequence of the last statement; 0 for none. Only rises.
  package var sequence: Int64
  package init(nextCACertificate: [UInt8]? = nil, revokedSerials: [[UInt8]] = [], sequence: Int64 = 0) {
    self.nextCACertificate = nextCACertificate
    self.revokedSerials = revokedSerials
    self.sequence = sequence
  }
}

/// Whether requests to a peer are worth a try, as the processes of this operator found out and share.
package enum PeerCondition: Sendable, Equatable {
  case reachable
  case unreachable(PeerFault, since: Timestamp)

  package var isReachable: Bool { self == .reachable }
}

/// Why a peer is not asked, in one word for tables and metrics.
package enum PeerFault: String, Sendable, CaseIterable {
  /// No connection.
  case network
  /// Connected, and no answer in time.
  case silent
  /// Its certificate or ours was refused in the handshake.
  case certificate
  /// It answers that we are no active peer of it.
  case refused
}

/// The outcome of removing a peer.
package enum PeerRemoval: Sendable, Equatable {
  case removed
  case unknown
  /// Messages are held for it: it is suspended, and nothing of it was removed.
  case messagesWait
}

/// A peering invitation as its issuer remembers it.
package struct Invitation: Sendable, Equatable {
  /// SHA-256 of the secret: the secret itself is only in the invitation.
  package let secretHash: [UInt8]
  package let expires: Timestamp
  package let scopes: Set<Peer.Scope>
  package init(secretHash: [UInt8], expires: Timestamp, scopes: Set<Peer.Scope>) {
    self.secretHash = secretHash
    self.expires = expires
    self.scopes = scopes
  }
}

/// An invitation that has not ended, as its issuer lists it.
package struct IssuedInvitation: Sendable, Equatable {
  package let invitation: Invitation
  /// SHA-256 of the public key of the CA that redeemed it; nil while it is open.
  package let redeemedBy: [UInt8]?
  package init(invitation: Invitation, redeemedBy: [UInt8]?) {
    self.invitation = invitation
    self.redeemedBy = redeemedBy
  }
}

extension Invitation {
  /// By which operators name it: it tells nothing of the secret.
  package var id: String {
    secretHash.prefix(4).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
  }
}

/// The outcome of redeeming an invitation.
package enum Redemption: Sendable, Equatable {
  case redeemed
  /// The invitation is unknown, expired, or used by another.
  case refused
  /// The list of peers is another than the one by which the caller judged: nothing was done, judge anew.
  case outdated
}
