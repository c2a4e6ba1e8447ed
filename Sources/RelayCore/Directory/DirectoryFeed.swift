// How each process of an operator keeps all contact tokens in memory: the store is the truth, the feed says what
// changed (docs/directory.md).

/// A place in the feed of changes to the directory, as this operator's processes keep it.
package struct DirectoryPlace: Sendable, Hashable {
  /// Another number in a store that was made anew: places of before mean nothing then.
  package let generation: Int64
  /// Rises in the order in which changes begin. PostgreSQL: the number of the transaction; embedded: of the change.
  package let revision: UInt64
  /// Tells changes of one revision apart; 0 before the first.
  package let position: Int64
  package init(generation: Int64, revision: UInt64, position: Int64 = 0) {
    self.generation = generation
    self.revision = revision
    self.position = position
  }
}

/// One page of the feed.
package struct DirectoryChanges: Sendable, Equatable {
  /// The changes, ascending by place.
  package let changes: [DirectoryChange]
  /// Behind the last of `changes`: where the next page of this reading begins.
  package let next: DirectoryPlace
  /// The place at which the next reading begins, at or before `next`. Changes that begin side by side may appear out
  /// of order. So changes behind the fence are read again until no earlier one can still appear.
  package let fence: DirectoryPlace
  /// Whether there are more behind `next` already.
  package let isPartial: Bool
  package init(changes: [DirectoryChange], next: DirectoryPlace, fence: DirectoryPlace, isPartial: Bool) {
    self.changes = changes
    self.next = next
    self.fence = fence
    self.isPartial = isPartial
  }
}

/// The subject of a change, without the new value. A reader asks the store for the present state, so repeating a
/// change is safe.
package struct DirectoryChange: Sendable, Equatable {
  package enum Subject: Sendable, Equatable {
    case token(ContactToken)
    /// Whether contacts of this peer are part of the directory.
    case peer(RelayName)
  }
  package let subject: Subject
  package let revision: UInt64
  package init(_ subject: Subject, revision: UInt64) {
    self.subject = subject
    self.revision = revision
  }
}

/// A sixteenth of a sixteenth of all tokens: those whose first byte is `firstByte`.
package struct DirectoryRange: Sendable, Hashable {
  package let firstByte: UInt8
  package init(firstByte: UInt8) { self.firstByte = firstByte }
  package static let all = (UInt8.min ... .max).map(DirectoryRange.init)
}

/// A digest of a range's entries, in 16 bytes. It is equal for equal entries in any order, and for others with a
/// chance of 2^-64.
package struct DirectoryDigest: Sendable, Hashable {
  package let count: Int
  /// Exclusive or, over the entries, of the first 8 bytes (big-endian) of the SHA-256 of: the token's 10 bytes; one
  /// byte, "s" or "-", for `supportsSMS`; one, "v" or "-", for `voice`; the peer's name in UTF-8, nothing for ours.
  package let checksum: UInt64
  package init(count: Int, checksum: UInt64) {
    self.count = count
    self.checksum = checksum
  }
}

/// The directory as a whole: what every process holds in memory, or a part of it.
package protocol DirectoryFeedStore: DirectoryStore {
  /// Reads the directory, in no order. Entries that come again of the same token are none's or another peer's: the
  /// caller asks `entries(for:)` which one it is.
  /// - Parameters:
  ///   - firstBytes: of the tokens that are read.
  ///   - take: called with some entries at a time, one call after the other, off the caller's task; it may block.
  /// - Returns: where to follow the feed from: nothing is missed.
  func readDirectory(
    _ firstBytes: ClosedRange<UInt8>, _ take: @escaping @Sendable ([DirectoryEntry]) -> Void
  ) async throws(StoreError) -> DirectoryPlace

  /// The feed's present end.
  func directoryPlace() async throws(StoreError) -> DirectoryPlace

  /// - Parameter limit: 1 or more.
  /// - Returns: nil when `place` is none of this store's, ahead of it, or so old that changes behind it are forgotten:
  ///   the reader begins anew with the whole.
  func directoryChanges(after place: DirectoryPlace, limit: Int) async throws(StoreError) -> DirectoryChanges?

  /// The last `limit` changes, ascending: for those who ask what has changed since some time ago.
  /// - Returns: with them the place behind which they are complete.
  func recentDirectoryChanges(limit: Int) async throws(StoreError) -> (
    changes: [DirectoryChange], since: DirectoryPlace
  )

  /// Tokens that `peer` claims, in an order of the store's own that stays, behind `token`: whoever begins to follow a
  /// peer, or follows it no longer, reads them so, page by page.
  func contactTokens(of peer: RelayName, after token: ContactToken?, limit: Int) async throws(StoreError)
    -> [ContactToken]

  /// The digest of all entries of a range. Two processes, or a process and the store, compare it instead of the
  /// entries.
  func directoryDigest(of range: DirectoryRange) async throws(StoreError) -> DirectoryDigest
  /// All entries of a range, in no order, at most one a token.
  func directoryEntries(in range: DirectoryRange) async throws(StoreError) -> [DirectoryEntry]

  /// Forgets changes of before the last `days` days, some at a time.
  func pruneDirectoryChanges(olderThan days: Int) async throws(StoreError)

  /// The key under which a process keeps copies of the directory in files.
  /// - Returns: 32 bytes, the same for every process of the store; nil where tokens lie in the store as they are, and
  ///   may lie so in a file.
  func directoryFileKey() async throws(StoreError) -> SecretBytes?
}

extension DirectoryFeedStore {
  /// Reads the whole directory.
  package func readDirectory(
    _ take: @escaping @Sendable ([DirectoryEntry]) -> Void
  ) async throws(StoreError) -> DirectoryPlace {
    try await readDirectory(.min ... .max, take)
  }
}
