package import RelayCore

/// How an operator says which account is meant.
package enum AccountReference: Sendable, Equatable {
  case number(AccountNumber)
  case handle(AccountHandle)

  /// Reads a number with its leading plus sign, or a handle.
  package init?(_ text: String) {
    if let number = AccountNumber(e164: text) {
      self = .number(number)
    } else if let handle = AccountHandle(text) {
      self = .handle(handle)
    } else {
      return nil
    }
  }

  /// The number that is meant, whether or not it has an account.
  /// - Returns: nil for a handle of another relay.
  package func number(in store: some AccountReportStore) async throws(StoreError) -> AccountNumber? {
    switch self {
    case .number(let number): number
    case .handle(let handle): try await store.number(of: handle)
    }
  }
}
