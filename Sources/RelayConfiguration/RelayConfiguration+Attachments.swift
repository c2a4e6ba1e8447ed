package import RelayCore

extension RelayConfiguration {
  package struct Attachments: Sendable, Equatable {
    package let location: AttachmentsLocation
    /// nil: the client listener's own URL.
    package let publicURL: WebURL?
    /// Present whenever the location is S3.
    package let s3: S3Credentials?
    package let bytesMax: Int
    /// Whole days.
    package let retention: Duration
    package let accountBytesMax: Int
    /// The mark that the ids begin with.
    package let mark: AttachmentMark

    init(_ keys: inout ConfigurationReader, of name: RelayName) {
      location = keys.value(
        "attachments.url", .attachments, default: "file:relay-data/attachments",
        "Where attachments are kept: `file:PATH` or `s3://BUCKET?endpoint=URL&region=NAME`.")
      publicURL = keys.optional(
        "attachments.public-url", .webURL, default: "the client listener's", "Base of the upload and download URLs.")
      s3 = S3Credentials(&keys)
      bytesMax = keys.value(
        "attachments.bytes-max", .whole(1...5_000_000_000), default: "104857600", "The largest attachment, in bytes.")
      retention = keys.value(
        "attachments.retention-days", .whole(1...3650, of: .seconds(86_400)), default: "30",
        "How long an attachment is kept.")
      accountBytesMax = keys.value(
        "attachments.account-bytes-max", .whole(1...1_000_000_000_000), default: "1073741824",
        "Bytes that the kept attachments of one account may take together; each counts 4096 at least.")
      let chosen = keys.optional(
        "attachments.mark", .whole(1...65_535), default: "made from name",
        "The beginning of attachment ids, by which peers' clients find them here; choose another if a peer has the same."
      )
      mark = chosen.flatMap { AttachmentMark($0) } ?? AttachmentMark(madeFrom: name)
      guard case .s3 = location else { return }
      for key in ["attachments.s3.access-key", "attachments.s3.secret-key"] {
        keys.miss(key, because: "attachments.url is s3://", of: "attachments.url")
      }
    }
  }

  package struct S3Credentials: Sendable, Equatable {
    package let accessKey: String
    package let secretKey: Secret

    init?(_ keys: inout ConfigurationReader) {
      let accessKey = keys.optional(
        "attachments.s3.access-key", .text, taking: .onReload,
        "Access key id; needed when `attachments.url` is `s3://`.")
      let secretKey = keys.optional(
        "attachments.s3.secret-key", .secret, secrecy: .secret, taking: .onReload, "The secret access key to it.")
      guard let accessKey, let secretKey else { return nil }
      (self.accessKey, self.secretKey) = (accessKey, secretKey)
    }
  }
}
