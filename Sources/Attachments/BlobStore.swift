package import RelayCore

/// The place of blobs: a folder of ours (`FolderStore`) or a bucket (`S3Store`).
package protocol BlobStore: Sendable {
  /// A URL that anyone may use for one thing with one blob for `BlobTimes.urlLife`. It grants access: never log it.
  /// - Parameter base: what URLs of this relay begin with, no slash at the end; a store elsewhere has its own.
  func url(for use: BlobUse, of id: AttachmentID, base: String, now: Timestamp) -> String

  /// - Returns: the length of a blob that is there whole; nil when there is none.
  func bytes(of id: AttachmentID) async throws(BlobFailure) -> Int64?

  /// Removes the blob if there is one.
  func remove(_ id: AttachmentID) async throws(BlobFailure)

  /// Removes what uploads left behind that stopped before `time`.
  func removeLeftovers(before time: Timestamp) async throws(BlobFailure)

  /// Blobs that were written before `time`: at most `limit`, in no order, and only those whose id's lowest byte is
  /// `share`. Always empty where something else removes what the relay does not know.
  func blobs(inShare share: UInt8, writtenBefore time: Timestamp, limit: Int) async throws(BlobFailure)
    -> [AttachmentID]
}

/// The use of a URL.
package enum BlobUse: Sendable { case upload, download }

/// A failure of the place where blobs lie. Its words hold no id and no URL.
package struct BlobFailure: Error, CustomStringConvertible {
  package let description: String
  init(_ description: String) { self.description = description }
}

/// How long things take at most, from the URL to the end of an upload.
package enum BlobTimes {
  /// For upload and download alike (reference 1.10).
  package static let urlLife = Duration.seconds(3600)
  /// From the first byte of an upload to its last: 100 MiB at 15 KiB/s.
  package static let uploadMax = Duration.seconds(7200)
  /// How long an attachment waits for its blob: an upload may begin as late as its URL lets it.
  package static let pendingLife = urlLife + uploadMax
  /// The sweeper looks so long after an attachment's end: clocks of processes differ, and an upload that ended in time
  /// may still be being written down.
  static let sweepGrace = Duration.seconds(600)
  /// Far longer than any upload lives.
  static let leftoverLife = Duration.seconds(86_400)
  /// So much longer than attachments are kept, a blob that the store does not know is left alone: its attachment, which
  /// an older database has forgotten, may have been kept from a later moment on than it was written.
  static let unknownGrace = Duration.seconds(86_400)
}

/// One relay's limits for blobs.
package struct AttachmentPolicy: Sendable {
  /// The largest blob.
  package let bytesMax: Int64
  /// How long a blob is kept, from the end of its upload.
  package let retention: Duration
  package let quota: AttachmentQuota

  package init(bytesMax: Int64, retention: Duration, quota: AttachmentQuota) {
    self.bytesMax = bytesMax
    self.retention = retention
    self.quota = quota
  }
}
