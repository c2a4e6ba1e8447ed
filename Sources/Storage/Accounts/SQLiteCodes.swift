// Pending codes: one of each purpose for a number.

import GRDB
package import RelayCore

extension SQLiteStorage {
  package func setVerificationCode(
    _ code: VerificationCode, for number: AccountNumber, purpose: CodePurpose
  ) async throws(StoreError) {
    let stored = try await knownCodes.value(in: self).stored(code.code, purpose, of: number)
    try await write { db in
      try db.run(
        """
        INSERT OR REPLACE INTO \(sql: purpose.table) (account, code, expires, tries)
        VALUES (\(number), \(stored), \(code.expires), 0)
        """)
    }
  }

  package func checkVerificationCode(
    _ code: Secret, for number: AccountNumber, triesMax: Int, now: Timestamp
  ) async throws(StoreError) -> Bool {
    let code = try await knownCodes.value(in: self).stored(code, .registration, of: number)
    return try await write { db in
      try Self.isPending(code, .registration, of: number, triesMax: triesMax, now: now, in: db)
    }
  }

  /// Whether `code` is the pending one of `number`; if not, that was a try.
  static func isPending(
    _ code: StoredCode, _ purpose: CodePurpose, of number: AccountNumber, triesMax: Int, now: Timestamp, in db: Database
  ) throws -> Bool {
    let pending = try db.row("SELECT code, expires FROM \(sql: purpose.table) WHERE account = \(number)")
    guard let pending, try pending.time(1) > now else { return false }
    if try constantTimeEquals(pending.bytes(0), code.bytes) { return true }
    try countTry(purpose, of: number, triesMax: triesMax, in: db)
    return false
  }

  /// The try that reaches `triesMax` drops the pending code.
  static func countTry(
    _ purpose: CodePurpose, of number: AccountNumber, triesMax: Int, in db: Database
  ) throws {
    try db.run("UPDATE \(sql: purpose.table) SET tries = tries + 1 WHERE account = \(number)")
    try db.run("DELETE FROM \(sql: purpose.table) WHERE account = \(number) AND tries >= \(triesMax)")
  }

  static func dropCode(_ purpose: CodePurpose, of number: AccountNumber, in db: Database) throws {
    try db.run("DELETE FROM \(sql: purpose.table) WHERE account = \(number)")
  }
}

extension CodePurpose {
  var table: String {
    switch self {
    case .registration: "verification_codes"
    case .linking: "linking_codes"
    }
  }
}
