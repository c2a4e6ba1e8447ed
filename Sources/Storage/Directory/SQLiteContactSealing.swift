// Sealing the contact tokens of a file that holds them as they are (`relay storage seal-contacts`; docs/directory.md,
// "At rest").

import Foundation
import GRDB
package import RelayCore

extension SQLiteStorage {
  /// One transaction: all tokens are sealed, or none. Plain tokens may remain in the file until it is written anew
  /// afterwards. Until then a row in `server_secrets` keeps relays from working on the store.
  package func sealContacts(
    progress: @Sendable (ContactSealingProgress) -> Void
  ) async throws(ContactSealingFailure) {
    let refusal: ContactSealingFailure?
    do throws(StoreError) { refusal = try await sealAll(progress) } catch { throw .store(error) }
    knownTokens.forget()
    if let refusal { throw refusal }
  }

  package func sealIfEmpty() async throws(StoreError) -> Bool {
    guard let key = try TokenState.newKey(sealer) else { return false }
    let isDone = try await write { db in
      guard try TokenState(in: db) == TokenState(),
        try Database.tokenTables.allSatisfy({ try db.tokenCount(in: $0) == 0 })
      else { return false }
      try db.store(key, as: TokenState.keyName)
      try db.takeSealedTokensAlone()
      return true
    }
    if isDone { knownTokens.forget() }
    return isDone
  }

  /// - Returns: why nothing was done.
  private func sealAll(
    _ progress: @Sendable (ContactSealingProgress) -> Void
  ) async throws(StoreError) -> ContactSealingFailure? {
    guard let newKey = try TokenState.newKey(sealer) else { return .noEncryptionKey }
    let state = try await tokenState()
    switch state.sealing(sealer) {
    case .sealed: return nil
    case .locked: return .locked
    case .plain, .underWay: break
    }
    if !state.isUnderWay {
      let tokens = try TokenSealer(key: sealer.open(newKey, named: TokenState.keyName))
      try await write { db in
        guard try TokenState(in: db) == TokenState() else {
          throw StoreError.unavailable(reason: "another process is sealing the contact tokens")
        }
        try db.store(newKey, as: TokenState.keyName)
        try db.store([1], as: TokenState.progressName)
        try db.sealTokens(with: tokens, progress)
        try db.takeSealedTokensAlone()
      }
    }
    try await writeAnew()
    try await write { db in try db.run("DELETE FROM server_secrets WHERE name = \(TokenState.progressName)") }
    return nil
  }

  /// Leaves nothing of what was deleted, neither in the file nor in the log beside it.
  private func writeAnew() async throws(StoreError) {
    do {
      try await pool.writeWithoutTransaction { db in
        try db.execute(sql: "VACUUM")
        try db.checkpoint(.truncate)
      }
    } catch {
      throw StoreError(embedded: error)
    }
  }
}

extension Database {
  /// Unseen by triggers, which are put back as they were: no listing and no feed changes.
  fileprivate func sealTokens(
    with tokens: TokenSealer, _ progress: (ContactSealingProgress) -> Void
  ) throws {
    let triggers = try rows(
      "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name IN ('accounts', 'contacts')"
    ).map { try (name: $0.text(0), sql: $0.text(1)) }
    for trigger in triggers { try execute(sql: "DROP TRIGGER \(trigger.name)") }
    add(function: Self.sealing(with: tokens))
    var (done, counts): (Int, [Int]) = (0, [])
    for table in Self.tokenTables { counts.append(try tokenCount(in: table)) }
    for (table, count) in zip(Self.tokenTables, counts) {
      try execute(sql: "UPDATE \(table) SET token = relay_seal(token) WHERE token IS NOT NULL")
      done += count
      progress(ContactSealingProgress(done: done, total: counts.reduce(0, +)))
    }
    remove(function: Self.sealing(with: tokens))
    for trigger in triggers { try execute(sql: trigger.sql) }
  }

  func tokenCount(in table: String) throws -> Int {
    try Int(Fields.valid(row("SELECT count(token) FROM \(sql: table)")).integer(0))
  }

  /// From a plain token to a sealed one.
  private static func sealing(with tokens: TokenSealer) -> DatabaseFunction {
    DatabaseFunction("relay_seal", argumentCount: 1, pure: true) { values in
      let plain = try Fields.valid(values.first.flatMap { Data.fromDatabaseValue($0) })
      return try tokens.seal(TokenSealer.plain.open(StoredToken([UInt8](plain)))).data
    }
  }
}
