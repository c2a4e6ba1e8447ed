// Number tokens: which seconds they may bear (reference 2.6). No token lies here, and none can be made of what does.

import GRDB
package import RelayCore

extension SQLiteStorage {
  package func drawNumberToken(
    for number: AccountNumber, by password: PasswordHash, now: Timestamp
  ) async throws(StoreError) -> Int64? {
    try await write { db in
      let master = try devices(of: number, in: db).first { $0.id == .master }
      guard master?.password == password else { return nil }
      try db.run(
        """
        UPDATE accounts SET number_token_drawn = max(\(now.second), number_token_drawn, number_token_floor + 1)
        WHERE account = \(number)
        """)
      return try db.row("SELECT number_token_drawn FROM accounts WHERE account = \(number)")?.integer(0)
    }
  }

  /// Whether a token of that second was drawn before the account was last registered, or has registered it.
  static func isVoid(_ second: Int64, of number: AccountNumber, in db: Database) throws -> Bool {
    let account = try db.row("SELECT number_token_floor FROM accounts WHERE account = \(number)")
    guard let account else { return false }
    return try second <= account.integer(0)
  }

  /// From here on no token holds that was drawn before, here or elsewhere.
  static func endNumberTokens(
    of number: AccountNumber, proof: StoredProof, now: Timestamp, in db: Database
  ) throws {
    let second = max(now.second, proof.second)
    try db.run(
      """
      UPDATE accounts SET number_token_floor = max(\(second), number_token_drawn, number_token_floor)
      WHERE account = \(number)
      """)
  }
}
