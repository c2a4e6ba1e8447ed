import RelayCore

/// How many contacts a peer may still claim here: plain arithmetic, the store is asked by `DirectoryPuller`.
///
/// The store's count is asked for once, and carried on from there by what each page adds and removes.
struct ContactAllowance: Sendable {
  let max: Int
  /// What the peer has here; nil until that was asked.
  private(set) var kept: Int?

  init(max: Int, kept: Int? = nil) {
    self.max = max
    self.kept = kept
  }

  mutating func counted(_ kept: Int) { self.kept = kept }

  /// - Parameter known: those of the accounts that the peer has here already. They take no room.
  /// - Returns: in order, the inactive ones, which are to be removed, the known ones, and as many of the others as there is
  ///   room for; and how many are refused.
  mutating func admit(
    _ accounts: [ListedAccount], known: Set<ContactToken>
  ) -> (admitted: [ListedAccount], refused: Int) {
    var known = known
    var room = Swift.max(0, max - (kept ?? 0))
    let before = room
    let admitted = accounts.filter { account in
      if account.isInactive {
        if known.remove(account.token) != nil { room += 1 }
        return true
      }
      if known.contains(account.token) { return true }
      guard room > 0 else { return false }
      room -= 1
      known.insert(account.token)
      return true
    }
    kept = (kept ?? 0) + before - room
    return (admitted, accounts.count - admitted.count)
  }
}
