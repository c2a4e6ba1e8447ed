// The limit on distinct contacts that an account may ask for in all. It makes the directory expensive to enumerate.

/// How many distinct contacts one account may ask for.
package struct LookUpAllowance: Sendable, Equatable {
  /// Within the first `firstDays` days after its first request.
  package let first: Int
  package let firstDays: Int
  /// More on every day after those.
  package let perDay: Int
  package init(first: Int, firstDays: Int, perDay: Int) {
    self.first = first
    self.firstDays = firstDays
    self.perDay = perDay
  }

  /// - Parameter age: since the account's first request, in milliseconds.
  package func total(atAge age: Int64) -> Int {
    let days = max(0, age) / Self.dayMillis - Int64(firstDays)
    guard days >= 0 else { return first }
    let (more, isTooMuch) = Int64(perDay).multipliedReportingOverflow(by: days + 1)
    return isTooMuch ? .max : first.addingReportingOverflow(Int(more)).overflow ? .max : first + Int(more)
  }

  package static let dayMillis: Int64 = 86_400_000
}

package enum ContactSpending: Sendable, Equatable {
  /// `new` of the contacts had not been asked for before, as nearly as the sketch tells.
  case allowed(new: Int)
  /// Nothing was counted. `retryAfter`: until the allowance has grown enough, nil when that is never.
  case refused(retryAfter: Duration?)
}

/// Counts the distinct contacts that each account has asked for, in a sketch without any of them in clear: a kilobyte
/// for 500 contacts, 200 at most. A new contact is taken for one asked for before with a chance of 1 % at most; one
/// asked for before is new again only for an account of more than 65,000, whose oldest are forgotten.
package protocol ContactBudget: Sendable {
  /// Adds `tokens` to the contacts that `account` has asked for, unless that would exceed `allowance`. The step is
  /// atomic across all processes. Tokens that were asked for before cost nothing. Never throws: while the shared
  /// state is away, each process counts by itself. An account that has not asked for 30 days and
  /// `allowance.firstDays` begins anew.
  func spend(_ tokens: [ContactToken], of account: AccountNumber, within allowance: LookUpAllowance) async
    -> ContactSpending
}
