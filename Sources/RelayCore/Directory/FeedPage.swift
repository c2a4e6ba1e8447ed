/// An answer of `GET /v1/federation/changes`, an addition of ours to reference 1.13.2 (docs/federation-wire.md, "The
/// listing and its feed").
package enum FeedPage: Sendable, Equatable {
  /// The changes behind the place that was asked for, oldest first, and the place behind them. A partial page may
  /// have successors already. `waits`: the request was let wait for a change, and the next one will be.
  case changes([ListedAccount], cursor: FeedCursor, isPartial: Bool, waits: Bool = false)
  /// The place that was asked for is none of this listing's: who follows reads the whole listing, and goes on from
  /// here.
  case reset(FeedCursor)

  /// `{"contacts": [...], "cursor": "...", "more": bool}`, with `"waits": true` where that is so, or
  /// `{"reset": true, "cursor": "..."}`.
  package var json: [UInt8] {
    var writer: JSONWriter
    switch self {
    case .changes(let accounts, let cursor, let isPartial, let waits):
      writer = JSONWriter(capacity: 96 + 32 * accounts.count)
      writer.beginObject()
      ContactCodec.encodeList(accounts, into: &writer)
      writer.key("cursor")
      writer.string(cursor.text)
      writer.key("more")
      writer.boolean(isPartial)
      if waits {
        writer.key("waits")
        writer.boolean(true)
      }
    case .reset(let cursor):
      writer = JSONWriter(capacity: 64)
      writer.beginObject()
      writer.key("reset")
      writer.boolean(true)
      writer.key("cursor")
      writer.string(cursor.text)
    }
    writer.endObject()
    return writer.bytes
  }

  /// Entries whose token cannot be decoded are left out.
  /// - Throws: `.tooLarge` for more entries than a page has; `.wrongShape` for a cursor that is none.
  package static func decode(_ json: RawSpan) throws(JSONError) -> FeedPage {
    var reader = JSONReader(json)
    var accounts: [ListedAccount] = []
    var count = 0
    var cursor: FeedCursor?
    var (isReset, isPartial, waits) = (false, false, false)
    try reader.beginObject()
    while let key = try reader.nextKey() {
      if reader.matches(key, "contacts") {
        try ContactCodec.decodeList(&reader, into: &accounts, count: &count)
      } else if reader.matches(key, "cursor") {
        cursor = try reader.string().flatMap { FeedCursor($0) }
      } else if reader.matches(key, "more") {
        isPartial = try reader.boolean() ?? false
      } else if reader.matches(key, "waits") {
        waits = try reader.boolean() ?? false
      } else if reader.matches(key, "reset") {
        isReset = try reader.boolean() ?? false
      } else {
        try reader.skip()
      }
    }
    try reader.finish()
    guard let cursor else { throw .wrongShape }
    return isReset ? .reset(cursor) : .changes(accounts, cursor: cursor, isPartial: isPartial, waits: waits)
  }
}

/// A place in a peer's feed, as the peer wrote it: only the peer knows what it means.
package struct FeedCursor: Sendable, Equatable {
  /// 1 to 64 letters, digits, dots, hyphens and underscores: it stands in a query as it is.
  package let text: String

  /// - Returns: nil for anything else.
  package init?(_ text: some StringProtocol) {
    guard (1...64).contains(text.utf8.count), text.utf8.allSatisfy(Self.isAllowed) else { return nil }
    self.text = String(text)
  }

  package init(_ cursor: ListingCursor) { text = cursor.text }

  private static func isAllowed(_ byte: UInt8) -> Bool {
    switch byte {
    case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, UInt8(ascii: "."), UInt8(ascii: "-"), UInt8(ascii: "_"): true
    default: false
    }
  }
}
