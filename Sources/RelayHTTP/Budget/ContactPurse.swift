package import RelayCore

/// Pays from an account's budget of different contacts, whichever way the account asks for them: look-ups, requests
/// for keys, messages (docs/directory.md, "The budget").
///
/// Look-ups have one purse and correspondence another, of the same budget. An address book that is too large for it
/// is refused each time, and is no reason to keep its owner from writing.
package struct ContactPurse: Sendable {
  private let budget: any ContactBudget
  private let allowance: LookUpAllowance
  private let pauses = BudgetPauses()

  /// - Parameter allowance: of each account.
  package init(budget: any ContactBudget, allowance: LookUpAllowance) {
    self.budget = budget
    self.allowance = allowance
  }

  /// - Throws: `.contactBudgetExceeded`; nothing was counted then.
  package func spend(_ tokens: [ContactToken], of account: AccountNumber) async throws(Problem) {
    switch pauses.admit(account) {
    case .open: try await spendOpenly(tokens, of: account)
    case .knownOnly(let rest):
      // With nothing to spend: what was asked for before is allowed, and nothing else.
      let nothing = LookUpAllowance(first: 0, firstDays: allowance.firstDays, perDay: 0)
      guard case .allowed = await budget.spend(tokens, of: account, within: nothing) else { throw Self.refusal(rest) }
      pauses.wereKnown(account)
    case .resting(let rest): throw Self.refusal(rest)
    }
  }

  private func spendOpenly(_ tokens: [ContactToken], of account: AccountNumber) async throws(Problem) {
    switch await budget.spend(tokens, of: account, within: allowance) {
    case .allowed: pauses.allowed(account)
    case .refused(let retryAfter):
      pauses.refused(account)
      throw Self.refusal(retryAfter)
    }
  }

  private static func refusal(_ retryAfter: Duration?) -> Problem {
    Problem(.contactBudgetExceeded, retryAfter: retryAfter)
  }

  /// Whether the budget has refused `account` and not allowed it anything since, as far as this process knows.
  package func isSpent(by account: AccountNumber) -> Bool { pauses.isPausing(account) }
}
