/// Carries a client's request to a peer. Implemented by Federation, used by Relay.
///
/// Common: `.notFound` for a relay that is no active peer; failures of the peer as reference 1.13.4 recommends:
/// 404, 409 and 410 with their devices and 413 pass, everything else is `.peerUnavailable`.
package protocol Courier: Sendable {
  /// Draws prekeys at the peer (reference 1.13.2).
  /// - Returns: one for each device, never empty. In version 1 they have no signed prekey.
  func preKeys(
    of account: AccountNumber, devices: DeviceSelector, version: PreKeyVersion, at relay: RelayName
  ) async throws(Problem) -> [DrawnPreKey]
  /// On return the peer has made every message durable, or this relay's outbox has, where the operator lets it hold
  /// messages for a peer that cannot be reached.
  func submit(_ submission: Submission, from source: DeviceAddress, to relay: RelayName) async throws(Problem)
  /// Tells `destination` at `relay` that `source` has received what it sent at `timestamp` (reference 1.13.6).
  func sendReceipt(
    for timestamp: Timestamp, from source: DeviceAddress, to destination: AccountNumber, at relay: RelayName
  ) async throws(Problem)
  /// The URL at which the blob of an attachment at `relay` can be downloaded.
  func attachmentURL(of id: AttachmentID, at relay: RelayName) async throws(Problem) -> String
}
