import RelayCore

/// Brings tokens of a table in line with the store. Safe to repeat: it asks for the present state.
struct TokenResolver: Sendable {
  let store: any DirectoryFeedStore
  let relays: RelayNumbers

  /// Tokens that the store is asked for at once.
  private static let askedAtOnce = 5_000

  /// - Parameter tokens: repeats make it dearer and no worse.
  func resolve(_ tokens: [ContactToken], in table: TokenTable) async throws(FollowFailure) {
    var first = 0
    while first < tokens.count {
      let part = Array(tokens[first..<min(tokens.count, first + Self.askedAtOnce)])
      first += part.count
      let found = try await FollowFailure.storing { () async throws(StoreError) in try await store.entries(for: part) }
      let entries = Dictionary(found.map { ($0.token, $0) }) { first, _ in first }
      let changes = part.map { TokenChange($0, entries[$0].flatMap(tableEntry)) }
      try FollowFailure.writing { () throws(TokenTable.OutOfMemory) in try table.apply(changes) }
    }
  }

  /// - Returns: nil for an entry of a relay that no number is left for.
  func tableEntry(_ entry: DirectoryEntry) -> TokenEntry? {
    relays.number(of: entry.relay).map {
      TokenEntry(relay: $0, supportsSMS: entry.supportsSMS, voice: entry.voice)
    }
  }
}
