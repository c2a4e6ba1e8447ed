package import RelayCore

extension SQLiteStorage {
  package func missedWakeUps() async throws(StoreError) -> Int64 { try await read { db in try db.revision(.wakeUps) } }
  package func noteMissedWakeUps() async throws(StoreError) { try await write { db in try db.raise(.wakeUps) } }
}
