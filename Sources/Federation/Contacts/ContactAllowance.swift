import RelayCore

/// How many contacts a peer may still claim here. Plain arithmetic: `DirectoryPuller` asks the store.
///
/// The store's count is asked for once; each page then adds to it. A contact that the peer no longer lists makes no
/// room: its tombstone is a claim until it ends. So a peer cannot claim ever more contacts by listing them in turns.
struct ContactAllowance: Sendable {
  let max: Int
  /// The number of contacts that the peer claims here, tombstones included; nil until the store was asked.
  private(set) var kept: Int?
  /// How many entries a whole reading may still bring, those included that are claimed already; nil for changes.
  private(set) var places: Int?

  init(max: Int, kept: Int? = nil) {
    self.max = max
    self.kept = kept
  }

  mutating func counted(_ kept: Int) { self.kept = kept }

  /// A whole reading begins.
  mutating func beginWhole() { places = max }
  /// The number of entries that the reading has brought.
  var brought: Int { max - (places ?? max) }
  /// Whether it can bring more.
  var hasPlaces: Bool { places.map { $0 > 0 } ?? true }

  /// - Parameter known: those of the accounts that the peer claims here already. They take no room.
  /// - Returns: in order, the inactive ones, which are to be un-listed, the known ones, and as many of the others as
  ///   there is room for; and how many are refused.
  mutating func admit(
    _ accounts: [ListedAccount], known: Set<ContactToken>
  ) -> (admitted: [ListedAccount], refused: Int) {
    var kept = kept ?? 0
    var places = places
    var seen: Set<ContactToken> = []
    let admitted = accounts.filter { account in
      if account.isInactive || seen.contains(account.token) { return true }
      if let places, places <= 0 { return false }
      if !known.contains(account.token) {
        guard kept < max else { return false }
        kept += 1
      }
      seen.insert(account.token)
      places = places.map { $0 - 1 }
      return true
    }
    (self.kept, self.places) = (kept, places)
    return (admitted, accounts.count - admitted.count)
  }
}
