// Removal of old data with time, by one process at a time if it takes locks.

package import RelayCore

extension PostgresStorage {
  package func maintain(_ terms: RetentionTerms) async throws(StoreError) -> Int {
    let reading = try await advanceClock()
    let past = reading.removalTime
    let partitions = PostgresPartitions(
      retention: terms.messages, past: past, seenDay: seenDay, isBelieved: reading.time.believes(reading.now))
    try await forgetExpired(at: past)
    try await forgetUnlisted(at: past)
    try await forgetAudit(at: past)
    try await forgetOldConfirmations(at: past)
    try await forgetOldLedger(at: past, future: reading.time.arrivalTime(at: reading.now))
    guard try await partitions.hasWork(over: reads) else { return 0 }
    // Several processes that try one after the other would stop the traffic as many times.
    let holder = Int64.random(in: 1...Int64.max)
    guard try await acquireLease(Self.maintenanceLease, holder: holder, for: .seconds(900)) else { return 0 }
    let result: Result<Int, StoreError>
    do throws(StoreError) {
      result = .success(
        try await maintenance.run { connection throws(StoreError) in try await partitions.keep(over: connection) })
    } catch {
      result = .failure(error)
    }
    try await releaseLease(Self.maintenanceLease, holder: holder)
    return try result.get()
  }

  private static let maintenanceLease = "maintenance"

  /// Codes and invitations nobody used. A day late, since their times are those of a relay's clock and not of this one.
  /// And leases that nobody takes any more.
  private func forgetExpired(at past: Timestamp) async throws(StoreError) {
    let longAgo = PostgresParameter(past.millis - Timestamp.millisPerDay)
    _ = try await write([
      PostgresStep("forget_codes", "DELETE FROM verification_codes WHERE expires < \(longAgo)"),
      PostgresStep("forget_linking_codes", "DELETE FROM linking_codes WHERE expires < \(longAgo)"),
      PostgresStep("forget_invitations", "DELETE FROM invitations WHERE expires < \(longAgo)"),
      PostgresStep(
        "forget_leases", "DELETE FROM leases WHERE expires < to_timestamp(\(longAgo) / 1000.0)"),
    ])
  }
}
