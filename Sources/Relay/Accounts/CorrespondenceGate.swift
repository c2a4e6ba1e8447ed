package import RelayCore
package import RelayHTTP

/// Keeps an account that asks for the keys of ever new numbers, or writes to them, within the budget of its look-ups
/// (docs/directory.md, "Keys and messages").
///
/// A number that answers 404 is charged at once. Numbers that answer are charged some at a time, behind their
/// answers. So neither answer can be had without end, and an ordinary message waits for none of it. If an account's
/// budget is used up, every number that it is not in contact with is charged before it is asked. So a refusal does
/// not tell whether the number is registered.
package struct CorrespondenceGate: Sendable {
  private let purse: ContactPurse
  private let correspondents = Correspondents()

  package init(purse: ContactPurse) { self.purse = purse }

  /// Runs `request` of `account`, whose answer tells whether `number` is registered.
  /// - Throws: `.contactBudgetExceeded` in place of, or without, an answer; and what `request` throws.
  package func reach<Value>(
    _ number: AccountNumber, by account: AccountNumber, _ request: () async throws(Problem) -> Value
  ) async throws(Problem) -> Value {
    guard number != account else { return try await request() }
    let isFree: Bool
    switch correspondents.admit(number, of: account, mayOwe: !purse.isSpent(by: account)) {
    case .free: isFree = true
    case .settling(let numbers):
      isFree = true
      Task { await settle(numbers, of: account) }
    case .charged:
      isFree = false
      try await charge([number], to: account)
    }
    do throws(Problem) {
      let value = try await request()
      if !isFree { correspondents.add(number, of: account) }
      return value
    } catch {
      guard error.kind == .notFound else { throw error }
      correspondents.remove(number, of: account)
      if isFree { try await charge([number], to: account) }
      throw Problem(.notFound, hint: .number)
    }
  }

  /// As `reach`, of a number that has written to `account`: it costs nothing unless it is gone since.
  package func reply<Value>(
    to number: AccountNumber, by account: AccountNumber, _ request: () async throws(Problem) -> Value
  ) async throws(Problem) -> Value {
    correspondents.add(number, of: account)
    return try await reach(number, by: account, request)
  }

  /// No caller waits for it: the requests were answered already.
  private func settle(_ numbers: [AccountNumber], of account: AccountNumber) async {
    do throws(Problem) {
      try await charge(numbers, to: account)
    } catch {
      // The purse knows now that it is empty.
    }
    correspondents.settled(account)
  }

  private func charge(_ numbers: [AccountNumber], to account: AccountNumber) async throws(Problem) {
    try await purse.spend(numbers.map { ContactTokens.token(of: $0) }, of: account)
  }
}
