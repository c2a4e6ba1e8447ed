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
