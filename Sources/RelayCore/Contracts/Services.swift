// The seams at which the features meet: each is implemented by one feature and used by another, and RelayCommand joins
// them (docs/architecture.md).

/// The one place for the policy of submitted messages, for clients and peers alike. Implemented by Relay.
package protocol Intake: Sendable {
  /// Accepts `submission` for an account of this relay.
  ///
  /// On return every message is durable. Safe to repeat with the same timestamp.
  /// - Throws: `.notFound`, `.mismatchedDevices`, `.staleDevices`, `.unavailable`; nothing was stored then.
  func accept(_ submission: Submission, from origin: Origin) async throws(Problem) -> Acceptance
}

/// Hands prekeys of this relay's accounts out. Implemented by Relay, used by Federation for peers.
package protocol PreKeyDispenser: Sendable {
  /// - Returns: one per active device that matches and has a key; never empty.
  /// - Throws: `.notFound` when there is no such active account or device, or no key.
  func draw(from account: AccountNumber, devices: DeviceSelector) async throws(Problem) -> [DrawnPreKey]
}

/// Carries a client's request to a peer. Implemented by Federation, used by Relay.
///
/// Common: `.notFound` for a relay that is no active peer; failures of the peer as reference 1.13.4 recommends:
/// 404, 409 and 410 with their devices and 413 pass, everything else is `.peerUnavailable`.
package protocol Courier: Sendable {
  func preKeys(of account: AccountNumber, devices: DeviceSelector, at relay: RelayName) async throws(Problem)
    -> [DrawnPreKey]
  /// On return the peer has made every message durable.
  func submit(_ submission: Submission, from source: DeviceAddress, to relay: RelayName) async throws(Problem)
}
