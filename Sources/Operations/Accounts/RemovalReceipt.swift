package import RelayCore

/// A list of what went with an account and what stays, for the person or court that demanded the deletion.
package struct RemovalReceipt: Encodable, Sendable {
  let number: String
  let handle: String
  let time: String
  let deleted: RemovalRow?
  let kept: [String]

  /// - Parameter deleted: nil where there was no account.
  package init(_ number: AccountNumber, _ handle: AccountHandle, _ deleted: RemovalRow?, at now: Timestamp) {
    self.number = number.e164
    self.handle = handle.text
    time = now.iso8601
    self.deleted = deleted
    kept = Self.kept
  }

  private static let kept = [
    "messages that the account has sent, in their recipients' mailboxes and on their way to peers, until they are fetched or "
      + "end",
    "the first ten bytes of the number's SHA-1, for 30 days, by which peers are told that it is not here any more",
    "the number under a key of this relay, in the audit log, for \(AuditLife.days) days",
    "backups, until they are replaced",
  ]
}
