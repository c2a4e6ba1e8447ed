/// The records of attachments; their blobs lie elsewhere.
package protocol AttachmentStore: Sendable {
  /// Notes that `attachment`, without bytes yet, was given out to its account.
  /// - Returns: false, with nothing stored, when the account's attachments and this one exceed `quota`.
  func addAttachment(_ attachment: Attachment, quota: AttachmentQuota) async throws(StoreError) -> Bool
  /// - Returns: nil when none was given out under this id, or it was removed. It may have expired.
  func attachment(_ id: AttachmentID) async throws(StoreError) -> Attachment?
  /// Notes that the upload of `bytes` is complete, once and for all, and when the blob expires.
  func finishAttachment(_ id: AttachmentID, bytes: Int64, expires: Timestamp, quota: AttachmentQuota)
    async throws(StoreError) -> AttachmentOutcome
  /// Attachments, uploaded or not, that expired before `now`: at most `limit`, the oldest first.
  func expiredAttachments(before now: Timestamp, limit: Int) async throws(StoreError) -> [Attachment]
  /// Forgets the attachments and frees the room they took of their accounts. Ids that are not known are ignored. The
  /// blobs stay: the caller removes them first.
  func removeAttachments(_ ids: [AttachmentID]) async throws(StoreError)
}
