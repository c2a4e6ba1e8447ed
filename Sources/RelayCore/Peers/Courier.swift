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

/// Says which peer a request of a client that names no relay is for (docs/federation.md, "Clients that name no relay").
/// Implemented by Federation, used by Relay and Attachments.
package protocol HomeFinder: Sendable {
  /// - Returns: the peer that has `number`; nil when it has an account here, or nobody is known to have it.
  /// - Throws: `.unavailable` when that cannot be told just now.
  func home(of number: AccountNumber) async throws(Problem) -> RelayName?
  /// - Returns: the peer that `attachment` is marked as; nil for one that is looked for here.
  func home(of attachment: AttachmentID) -> RelayName?
}

extension HomeFinder {
  /// The peer that a request for `number` goes to: the one that the client named, or else the one that has the number.
  /// - Returns: nil for this relay.
  package func relay(for number: AccountNumber, named relay: RelayName?) async throws(Problem) -> RelayName? {
    if let relay { return relay }
    return try await home(of: number)
  }

  /// The same, of a name as it came. - Throws: `.notFound` for what cannot be a relay's name.
  package func relay(for number: AccountNumber, named text: String?) async throws(Problem) -> RelayName? {
    guard let text else { return try await home(of: number) }
    guard let relay = RelayName(text) else { throw Problem(.notFound) }
    return relay
  }
}

/// The account of this relay that other operators may send test messages to (docs/federation.md, "The probe account").
/// Implemented by Relay, used by Federation and by `relay peer test`.
package protocol ProbeHost: Sendable {
  /// Makes the account where there is none, and gives it keys where they run out. Safe to repeat.
  func prepare() async throws(Problem) -> AccountNumber
  /// Takes what came from `relay` out of the account's mailbox, and with it what has lain there for long.
  /// - Returns: the senders' times of what came from `relay`, in the order of acceptance.
  func collect(from relay: RelayName) async throws(Problem) -> [Timestamp]
}
