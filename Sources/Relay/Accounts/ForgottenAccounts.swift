import RelayCore

/// The accounts that were forgotten lately: what a read began before that must not be kept after it. Changes of one
/// account, which cost their device little, keep no other from being remembered.
struct ForgottenAccounts {
  /// Counts what was forgotten. To be taken before a read.
  private(set) var mark: UInt64 = 0
  /// When each was forgotten last.
  private var marks: [AccountNumber: UInt64] = [:]
  /// Reads that began before are kept of no account.
  private var floor: UInt64 = 0

  /// More than change while one read is under way.
  static let max = 4096

  mutating func forget(_ number: AccountNumber) {
    mark += 1
    if marks.count >= Self.max, marks[number] == nil { forgetMarks() }
    marks[number] = mark
  }

  mutating func forgetAll() {
    mark += 1
    forgetMarks()
  }

  private mutating func forgetMarks() {
    floor = mark
    marks.removeAll()
  }

  /// - Parameter begun: the mark when the read began.
  func isCurrent(_ number: AccountNumber, readSince begun: UInt64) -> Bool {
    begun >= floor && marks[number].map { begun >= $0 } ?? true
  }
}
