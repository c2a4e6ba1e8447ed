import RelayCore

/// Takes messages out of the outbox that will not be delivered, telling their senders first: killed between the two, it
/// does both again, and a word that is repeated is stored once.
struct OutboxRemoval: Sendable {
  let store: any OutboxStore
  let intake: any Intake
  let metrics: OutboxMetrics
  let ledger: HandOverLedger

  struct Outcome {
    /// Gone, their senders told.
    var told = 0
    /// Gone, though their senders could not be told.
    var dropped = 0
    /// Still held: their senders' mailboxes have no room for the word of it.
    var untold: [HeldMessage] = []
  }

  /// Gives `held` up and tells their senders. If a sender cannot be told now, its message stays held until `policy`
  /// waits no longer.
  func giveUp(
    _ held: [HeldMessage], because reason: UndeliverableReason, by policy: OutboxPolicy, at now: Timestamp
  ) async throws(Problem) -> Outcome {
    var outcome = Outcome()
    var gone: [HeldMessage] = []
    for message in held {
      if try await intake.reportUndeliverable(message.message) {
        outcome.told += 1
      } else if policy.isPastTelling(message.accepted, at: now) {
        outcome.dropped += 1
      } else {
        outcome.untold.append(message)
        continue
      }
      gone.append(message)
    }
    try await remove(gone, because: reason, untold: outcome.dropped)
    return outcome
  }

  /// At once, also where the sender cannot be told.
  func giveUp(_ held: [HeldMessage], because reason: UndeliverableReason) async throws(Problem) {
    var untold = 0
    for message in held where try await !intake.reportUndeliverable(message.message) { untold += 1 }
    try await remove(held, because: reason, untold: untold)
  }

  func delivered(_ held: [HeldMessage]) async throws(Problem) {
    guard !held.isEmpty else { return }
    try await remove(held, as: .answered)
    metrics.messagesDelivered(held.count)
  }

  private func remove(_ held: [HeldMessage], because reason: UndeliverableReason, untold: Int) async throws(Problem) {
    guard !held.isEmpty else { return }
    try await remove(held, as: .refused)
    metrics.messagesGivenUp(held.count, because: reason)
    metrics.sendersUntold(untold)
  }

  /// All of one peer.
  private func remove(_ held: [HeldMessage], as event: LedgerRecord.Event) async throws(Problem) {
    let record = held.first.map { first in
      let relay = first.message.relay
      return LedgerRecord(event, held.flatMap { ledger.crossings(of: $0.message.handOver, to: relay) }, relay: relay)
    }
    try await storing { () async throws(StoreError) in
      try await store.removeHeld(held.map(\.sequence), counting: record)
    }
  }
}
