package import RelayCore

/// The accounts as operators see them, by command and by the operator API.
package struct AccountReports: Sendable {
  package typealias Store = AccountStore & AccountReportStore & AccountRemovalStore

  private let store: any Store

  package init(store: any Store) { self.store = store }

  /// Accounts ascending by number, at most `limit`.
  /// - Parameters:
  ///   - last: only accounts behind this number.
  ///   - prefix: only numbers that begin with it; nil for all.
  package func list(
    after last: AccountNumber?, prefix: NumberPrefix?, limit: Int
  ) async throws(StoreError) -> [AccountRow] {
    var found: [AccountRow] = []
    for range in prefix?.ranges ?? [1...Int64.max] {
      var last = max(last.map { Int64($0.digits) } ?? 0, range.lowerBound - 1)
      while last < range.upperBound, found.count < limit {
        let page = try await store.accountSummaries(
          after: AccountNumber(digits: last), limit: min(limit - found.count, Self.pageMax))
        for summary in page where range.contains(Int64(summary.number.digits)) {
          found.append(AccountRow(summary, try await store.handle(of: summary.number)))
        }
        guard let end = page.last?.number else { return found }
        last = Int64(end.digits)
      }
    }
    return found
  }

  package func counts() async throws(StoreError) -> CountsRow {
    let counts = try await store.accountCounts()
    return CountsRow(
      accounts: counts.accounts, active: counts.active, found: counts.discoverable, devices: counts.devices,
      banned: try await store.bannedCount())
  }

  /// - Returns: nil where there is no such account.
  package func details(of number: AccountNumber, at now: Timestamp) async throws(StoreError) -> AccountDetails? {
    guard let account = try await store.account(number), let summary = try await summary(of: number) else { return nil }
    let row = AccountRow(summary, try await store.handle(of: number))
    let holdings = try await store.deviceHoldings(of: number)
    return AccountDetails(
      handle: row.handle, isActive: row.isActive, isFound: row.isFound, seen: row.seen,
      hasRegistrationLock: account.registrationLock != nil, hasIdentityKey: account.identityKey != nil,
      devices: account.devices.map { device in
        DeviceRow(device, holdings.first { $0.device == device.id }, at: now)
      })
  }

  /// - Returns: nil where there is no such account.
  package func export(of number: AccountNumber, at now: Timestamp) async throws(StoreError) -> AccountExport? {
    guard let account = try await store.account(number), let details = try await details(of: number, at: now) else {
      return nil
    }
    let attachments = try await store.attachments(of: number, limit: AccountExport.attachmentsMax)
    return AccountExport(account, details, attachments: attachments.count, at: now)
  }

  private func summary(of number: AccountNumber) async throws(StoreError) -> AccountSummary? {
    let before = AccountNumber(digits: Int64(number.digits) - 1)
    guard let summary = try await store.accountSummaries(after: before, limit: 1).first, summary.number == number else {
      return nil
    }
    return summary
  }

  private static let pageMax = 1_000
}
