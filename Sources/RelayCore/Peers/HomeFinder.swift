/// Says which peer a request of a client that names no relay is for (docs/federation.md, "Clients that name no relay").
/// Implemented by Federation, used by Relay and Attachments.
package protocol HomeFinder: Sendable {
  /// - Returns: the peer that has `number`; nil when it has an account here, or nobody is known to have it.
  /// - Throws: `.unavailable` when that cannot be told just now.
  func home(of number: AccountNumber) async throws(Problem) -> RelayName?
  /// - Returns: the peer that `attachment` is marked as; nil for one that is looked for here.
  func home(of attachment: AttachmentID) -> RelayName?
}
