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

/// The first digits of a number, such as a country's.
package struct NumberPrefix: Sendable, Equatable {
  private let value: Int64
  private let count: Int

  /// Reads a plus sign and digits, at most as many as a number has. A plus sign alone begins every number.
  package init?(_ text: String) {
    let digits = text.utf8.dropFirst()
    guard text.utf8.first == UInt8(ascii: "+"), digits.count <= Self.digitsMax,
      digits.allSatisfy({ (0x30...0x39).contains($0) }), digits.first != 0x30
    else { return nil }
    value = digits.reduce(0) { $0 * 10 + Int64($1 - 0x30) }
    count = digits.count
  }

  /// The ranges of numbers that begin with it, ascending: one for each length, so that no others are read.
  package var ranges: [ClosedRange<Int64>] {
    guard count > 0 else { return [1...Int64.max] }
    var ranges: [ClosedRange<Int64>] = []
    var (low, size) = (value, Int64(1))
    for _ in count...Self.digitsMax {
      ranges.append(low...(low + size - 1))
      (low, size) = (low * 10, size * 10)
    }
    return ranges
  }

  private static let digitsMax = 15
}
