import RelayCore

/// The accounts of many numbers, as the store has them.
struct ManyAccounts: Sendable {
  private(set) var found: [AccountNumber: Account] = [:]
  /// The numbers of which nothing can be said now: the store was away, or what it has of them is damaged. All others
  /// that are not found have no account.
  private(set) var unread: Set<AccountNumber> = []

  mutating func add(_ account: Account) { found[account.number] = account }

  mutating func add(unread numbers: some Sequence<AccountNumber>) { unread.formUnion(numbers) }

  mutating func add(_ others: ManyAccounts) {
    found.merge(others.found) { $1 }
    unread.formUnion(others.unread)
  }
}
