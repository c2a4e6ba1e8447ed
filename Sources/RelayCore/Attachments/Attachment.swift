/// An attachment's name: positive, 63 bits. The first 16 are the holder's mark and the others random; ids of earlier
/// releases are all random. Knowing the id is enough to ask for the blob (reference 1.10).
package struct AttachmentID: Sensitive, Sendable, Hashable {
  package static let kind: StaticString = "attachment id"
  /// 1 or more.
  package let value: Int64

  package init?(_ value: Int64) {
    guard value >= 1 else { return nil }
    self.value = value
  }
  /// Reads decimal digits. - Returns: nil for anything else.
  package init?(text: some StringProtocol) {
    guard (1...19).contains(text.utf8.count), text.utf8.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }),
      let value = Int64(text)
    else { return nil }
    self.init(value)
  }
  /// - Parameter random: of which the lowest 47 bits are taken.
  package init(_ mark: AttachmentMark, random: UInt64) {
    value = Int64(mark.value) << Self.randomBits | Int64(random & (1 << Self.randomBits - 1))
  }

  /// The mark of the relay that holds the blob. For an id of an earlier release it means nothing.
  package var mark: AttachmentMark? { AttachmentMark(value >> Self.randomBits) }
  private static let randomBits: Int64 = 47

  /// The form of paths.
  package var text: String { String(value) }
}

/// A blob's record; the blob itself lies elsewhere.
package struct Attachment: Sendable, Equatable {
  package let id: AttachmentID
  package let account: AccountNumber
  /// nil until the upload is complete.
  package let bytes: Int64?
  /// When it is removed; an upload that was not begun or not completed has a near one.
  package let expires: Timestamp
  package init(id: AttachmentID, account: AccountNumber, bytes: Int64?, expires: Timestamp) {
    self.id = id
    self.account = account
    self.bytes = bytes
    self.expires = expires
  }
}

/// How much of the attachments' store one account may hold.
package struct AttachmentQuota: Sendable, Equatable {
  package let bytesMax: Int64
  package init(bytesMax: Int64) { self.bytesMax = bytesMax }
  /// The least that an attachment counts, uploaded or not, so that many small ones are bounded too.
  package static let chargeMin: Int64 = 4096
}

package enum AttachmentOutcome: Sendable, Equatable {
  case finished
  /// Another upload was complete before.
  case alreadyFinished
  /// Never given out, or removed.
  case unknown
  case quotaExceeded
}

/// The first 16 bits of the ids of one relay's attachments. A reader of an id knows from them which of the relays
/// that it knows holds the blob (docs/federation.md, "Attachments without a relay").
package struct AttachmentMark: Sendable, Hashable, Comparable {
  /// 1 or more.
  package let value: UInt16

  package init?(_ value: some BinaryInteger) {
    guard let value = UInt16(exactly: value), value > 0 else { return nil }
    self.value = value
  }

  /// The mark of a relay whose operator has chosen none: the same for each of its processes. Peers are told it, and
  /// never reckon it themselves.
  package init(madeFrom name: RelayName) {
    // FNV-1a: it has to spread names, and keeps nothing secret.
    var hash: UInt32 = 2_166_136_261
    for byte in name.text.utf8 { hash = (hash ^ UInt32(byte)) &* 16_777_619 }
    // 1...65535.
    value = UInt16(hash % 65_535) + 1
  }

  package static func < (a: Self, b: Self) -> Bool { a.value < b.value }
}

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

/// Says where blobs are downloaded. Implemented by Attachments, used by Federation for peers.
package protocol AttachmentLocator: Sendable {
  /// A URL that anyone may use for a limited time. Whether the blob exists is not checked (reference 1.10).
  func downloadURL(of id: AttachmentID) async throws(Problem) -> String
}
