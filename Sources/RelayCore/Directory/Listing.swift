/// A place in the feed of changes to our listing, as peers keep it: opaque to them.
package struct ListingCursor: Sendable, Equatable {
  /// Another number after a restore of an older state: places of before mean nothing then.
  package let generation: Int64
  /// The revision of the last change that was seen, 0 for none.
  package let revision: Int64
  package init(generation: Int64, revision: Int64) {
    self.generation = generation
    self.revision = revision
  }

  /// `GENERATION-REVISION`, in decimal.
  package var text: String { "\(generation)-\(revision)" }

  /// - Returns: nil for anything else, negative numbers included.
  package init?(text: String) {
    let parts = text.split(separator: "-", omittingEmptySubsequences: false)
    guard parts.count == 2, text.utf8.count <= 41, let generation = Int64(parts[0]), let revision = Int64(parts[1]),
      parts.allSatisfy({ $0.utf8.allSatisfy { (0x30...0x39).contains($0) } })
    else { return nil }
    self.init(generation: generation, revision: revision)
  }
}

/// Changes of our listing behind a cursor, oldest first; of an account only its last.
package struct ListingChanges: Sendable, Equatable {
  package let accounts: [ListedAccount]
  /// Behind the last of `accounts`.
  package let cursor: ListingCursor
  /// Whether there may be more behind `cursor` already.
  package let isPartial: Bool
  package init(accounts: [ListedAccount], cursor: ListingCursor, isPartial: Bool) {
    self.accounts = accounts
    self.cursor = cursor
    self.isPartial = isPartial
  }
}
