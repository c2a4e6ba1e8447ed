// Accounts that were seen long ago, which no test can wait for.

import GRDB
import RelayCore

extension RelayOperator {
  /// Sets the time at which every device of `number` was last seen back. The running relay may know the account as it
  /// was until its next change; registration reads it anew.
  package func age(_ number: String, byDays days: Int64) async throws {
    guard let account = AccountNumber(e164: number) else { throw TestFailure("not a number") }
    let queue = try SQLiteDatabase.open(folder + "/relay.sqlite")
    try await queue.write { db in
      try db.execute(
        sql: "UPDATE devices SET last_seen = last_seen - ? WHERE account = ?",
        arguments: [days * Timestamp.millisPerDay, Int64(account.digits)])
    }
    try queue.close()
  }

  /// Makes the store one that no relay has looked after for so long: a right clock is ahead of it then.
  package func leaveStoreAlone(forDays days: Int64) async throws {
    let queue = try SQLiteDatabase.open(folder + "/relay.sqlite")
    try await queue.write { db in
      try db.execute(
        sql: "UPDATE store_clock SET seen = seen - ?1, cleared = seen - ?1",
        arguments: [days * Timestamp.millisPerDay])
    }
    try queue.close()
  }
}
