// The seams at which the features meet: each is implemented by one feature and used by another, and RelayCommand joins
// them (docs/architecture.md).

/// The one place for the policy of submitted messages, for clients and peers alike. Implemented by Relay.
package protocol Intake: Sendable {
  /// Accepts `submission` for an account of this relay.
  ///
  /// On return every message is durable. Safe to repeat with the same timestamp.
  /// - Parameter marks: of each message, from a peer; or none at all. What is stored is counted as accepted with it.
  /// - Throws: `.notFound`, `.mismatchedDevices`, `.staleDevices`, `.mailboxFull`, `.unavailable`; nothing was stored
  ///   then.
  func accept(_ submission: Submission, marks: [CrossingMark], from origin: Origin) async throws(Problem) -> Acceptance

  /// Queues a receipt on every device of `destination` that can be reached: `origin` has received what `destination`
  /// sent at `timestamp`.
  ///
  /// Durable on return; safe to repeat.
  /// - Parameter mark: of a peer's receipt: it is counted as accepted with its envelope for device 1.
  /// - Throws: `.notFound` when there is no such active account.
  func acceptReceipt(
    for timestamp: Timestamp, mark: CrossingMark?, to destination: AccountNumber, from origin: Origin
  ) async throws(Problem)

  /// Queues on every device of the account of `message.source` that can be reached the word that `message`, which was
  /// accepted, will not reach its destination (docs/protocol.md, "Undeliverable messages").
  ///
  /// Durable on return; safe to repeat. A full mailbox takes no more.
  /// - Returns: false when all of the sender's mailboxes are full: then it should be told later. A sender that is gone, or
  ///   has no device that can be reached, has no more to be told.
  func reportUndeliverable(_ message: OutgoingMessage) async throws(Problem) -> Bool
}

extension Intake {
  /// Counts nothing.
  package func accept(_ submission: Submission, from origin: Origin) async throws(Problem) -> Acceptance {
    try await accept(submission, marks: [], from: origin)
  }

  /// Counts nothing.
  package func acceptReceipt(for timestamp: Timestamp, to destination: AccountNumber, from origin: Origin)
    async throws(Problem)
  {
    try await acceptReceipt(for: timestamp, mark: nil, to: destination, from: origin)
  }
}

/// Hands prekeys of this relay's accounts out. Implemented by Relay, used by Federation for peers.
package protocol PreKeyDispenser: Sendable {
  /// - Returns: one per active device that matches and has what `version` can show: for version 1 a prekey, for
  ///   version 2 a prekey or a signed one; never empty.
  /// - Throws: `.notFound` when there is no such active account or device, or no key.
  func draw(from account: AccountNumber, devices: DeviceSelector, version: PreKeyVersion) async throws(Problem)
    -> [DrawnPreKey]

  /// How many keys `draw` would hand out at most: the active devices that match, from memory as a rule.
  /// - Returns: 0 where there is no such active account or device.
  func keysMax(of account: AccountNumber, devices: DeviceSelector) async throws(Problem) -> Int
}

/// Carries a client's request to a peer. Implemented by Federation, used by Relay.
///
/// Common: `.notFound` for a relay that is no active peer; failures of the peer as reference 1.13.4 recommends:
/// 404, 409 and 410 with their devices and 413 pass, everything else is `.peerUnavailable`.
package protocol Courier: Sendable {
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
  /// Where the blob of an attachment at `relay` can be downloaded.
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

/// The directory as this process has it in memory, for those who route by it. Implemented by Directory, used by Federation.
package protocol HomeDirectory: Sendable {
  /// Whether it is loaded: before, it knows nobody.
  var isReady: Bool { get }
  /// Who has `token`, of those who are found; nil when it is unknown.
  func home(of token: ContactToken) -> ContactHome?
}

/// Whose a contact is, as look-ups see it.
package enum ContactHome: Sendable, Equatable {
  case here
  case peer(RelayName)
}

/// Says where blobs are downloaded. Implemented by Attachments, used by Federation for peers.
package protocol AttachmentLocator: Sendable {
  /// A URL that anyone may use for a limited time. Whether the blob exists is not checked (reference 1.10).
  func downloadURL(of id: AttachmentID) async throws(Problem) -> String
}

/// Those who remember outside the store how far the store's epoch had come, so that a restored older state is recognised
/// (docs/decisions/2026-11-21-restored-stores.md). Implemented by Redis's coordination and by Federation's peers.
package protocol EpochWitness: Sendable {
  /// Has each of them remember `epoch` if it is the highest so far.
  /// - Returns: what each says that might remember, in no order, possibly none. What is plausible, and whom to believe, is
  ///   the caller's to judge.
  func witness(epoch: Int64) async -> [EpochTestimony]
}

/// Finds contacts that no copy of a listing is kept of, by asking the peers. Implemented by Federation, used by Directory.
package protocol ContactFinder: Sendable {
  /// Whether there is any peer to be asked just now: where there is none, nobody need look for what is unknown.
  var hasPeers: Bool { get }
  /// - Returns: entries for those of `tokens` that a peer knows, in no order, at most one each; peers that do not answer
  ///   in time are passed over.
  func find(_ tokens: [ContactToken]) async -> [DirectoryEntry]
}

/// The directory as this process has it in memory, for those who change what it shows. Implemented by Directory, used by
/// Relay.
package protocol DirectoryMirror: Sendable {
  /// Returns when look-ups of this process show what was committed before the call; or after a second at most, and then
  /// they show it later. So a client finds here what it has just been told is done. Never throws.
  func catchUp() async
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
