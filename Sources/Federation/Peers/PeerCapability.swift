/// A capability of a relay beyond the protocol's reference, told in the answer to `GET /v1/federation/peering`. So
/// two relays of different ages use only capabilities that both know (docs/federation-wire.md, "Capabilities").
enum PeerCapability: String, Sendable, CaseIterable {
  /// `PUT /v1/federation/batch`.
  case batches
  /// The terms of a batch (`BatchTerms`).
  case orderedBatches = "ordered-batches"
  /// `PUT /v1/federation/keys`.
  case keyBatches = "key-batches"
  /// `GET /v1/federation/changes`.
  case changes
  /// `PUT /v1/federation/tokens`.
  case lookup
  /// `PUT /v1/federation/probe`.
  case probe
  /// `GET /v1/federation/authority`.
  case statements
  /// `GET /v1/federation/budget`.
  case budget
}
