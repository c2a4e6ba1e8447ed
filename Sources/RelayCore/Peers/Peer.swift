/// Another relay that this operator trusts (docs/federation.md).
package struct Peer: Sendable, Equatable {
  package enum State: String, Sendable { case active, suspended }
  /// What a peer may ask of us.
  package enum Scope: String, Sendable, CaseIterable, Comparable {
    case messages, keys, directory, attachments
    package static func < (a: Self, b: Self) -> Bool { a.rawValue < b.rawValue }
  }

  package let name: RelayName
  /// Where it listens for us: `https://host:port`.
  package let url: String
  /// Its CA certificate, DER: the only anchor that may vouch for it.
  package let caCertificate: [UInt8]
  package let state: State
  package let scopes: Set<Scope>
  package let added: Timestamp

  package init(
    name: RelayName, url: String, caCertificate: [UInt8], state: State, scopes: Set<Scope>, added: Timestamp
  ) {
    self.name = name
    self.url = url
    self.caCertificate = caCertificate
    self.state = state
    self.scopes = scopes
    self.added = added
  }
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
