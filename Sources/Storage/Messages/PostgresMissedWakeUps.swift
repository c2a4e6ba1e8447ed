package import RelayCore

extension PostgresStorage {
  package func missedWakeUps() async throws(StoreError) -> Int64 { try await revision(of: "wake-ups") }

  package func noteMissedWakeUps() async throws(StoreError) {
    _ = try await write("note_missed_wake_ups", "UPDATE revisions SET value = value + 1 WHERE subject = 'wake-ups'")
  }
}
