import RelayCore
import RelayHTTP

/// How much one account may ask the directory for (docs/directory.md, "Look-ups and budgets").
///
/// Two bounds stand one behind the other: the bucket of reference 3.6, which every token is charged to, and the budget
/// of different contacts, which is asked only about address books that this process has not seen lately. They are
/// charged one behind the other, since a request that the bucket refuses must not cost any of the budget.
struct LookUpGate: Sendable {
  /// A request that may be answered.
  struct Admission: Sendable {
    fileprivate let account: AccountNumber
    /// nil: this process has answered the same before.
    fileprivate let newBook: AddressBookCache.Digest?
  }

  private let limiter: any RateLimiter
  private let purse: ContactPurse
  private let detector: EnumerationDetector
  private let refusesEnumeration: Bool
  private let books = AddressBookCache()

  init(
    limiter: any RateLimiter, purse: ContactPurse, detector: EnumerationDetector, refusesEnumeration: Bool
  ) {
    self.limiter = limiter
    self.purse = purse
    self.detector = detector
    self.refusesEnumeration = refusesEnumeration
  }

  /// - Throws: `.rateLimited`, `.contactBudgetExceeded`.
  func admit(_ tokens: [ContactToken], of account: AccountNumber) async throws(Problem) -> Admission {
    try await charge(tokens.count, to: account)
    let digest = books.digest(of: tokens)
    guard !tokens.isEmpty, !books.holds(digest, of: account) else { return Admission(account: account, newBook: nil) }
    try await spend(tokens, of: account)
    return Admission(account: account, newBook: digest)
  }

  /// Looks at what an admitted request asks for and finds; a repeated one was looked at before.
  /// - Parameter entries: how many contacts the directory has.
  /// - Throws: `.enumerationRefused`, where such requests are refused. It is so again when it is repeated.
  func examine(
    _ admission: Admission, _ tokens: [ContactToken], _ hits: ContactHits, directory entries: Int
  ) async throws(Problem) {
    guard let book = admission.newBook else { return }
    let isSuspicious = await detector.isSuspicious(tokens, hits, directory: entries)
    if isSuspicious, refusesEnumeration { throw Problem(.enumerationRefused) }
    books.add(book, of: admission.account)
  }

  /// - Throws: `.rateLimited`.
  func charge(_ tokenCount: Int, to account: AccountNumber) async throws(Problem) {
    try await limiter.charge(.contactQueries, LimitKey(account), amount: Double(tokenCount))
  }

  /// - Throws: `.contactBudgetExceeded`; nothing was counted then.
  func spend(_ tokens: [ContactToken], of account: AccountNumber) async throws(Problem) {
    try await purse.spend(tokens, of: account)
  }
}
