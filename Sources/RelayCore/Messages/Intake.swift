/// The one place for the policy of submitted messages, for clients and peers alike. Implemented by Relay.
package protocol Intake: Sendable {
  /// Accepts `submission` for an account of this relay.
  ///
  /// On return every message is durable. Safe to repeat with the same timestamp.
  /// - Parameter marks: of each message, from a peer; or none at all. A stored message is counted as accepted with
  ///   it.
  /// - Throws: `.notFound`, `.mismatchedDevices`, `.staleDevices`, `.mailboxFull`, `.senderShareFull`,
  ///   `.peerShareFull`, `.unavailable`; nothing was stored then.
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
  /// - Returns: false when all of the sender's mailboxes are full: then it should be told later. A sender that is
  ///   gone, or has no device that can be reached, has no more to be told.
  func reportUndeliverable(_ message: PeerSubmission) async throws(Problem) -> Bool
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
