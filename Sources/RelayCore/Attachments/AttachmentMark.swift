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
