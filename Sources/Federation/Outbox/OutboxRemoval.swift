import RelayCore

/// Takes messages out of the outbox that will not be delivered, telling their senders first: killed between the two, it
/// does both again, and a word that is repeated is stored once.
struct OutboxRemoval: Sendable {
  let store: any OutboxStore
  let intake: any Intake
  let metrics: OutboxMetrics

  func giveUp(_ held: [HeldMessage], because reason: UndeliverableReason) async throws(Problem) {
    guard !held.isEmpty else { return }
    for message in held { try await intake.reportUndeliverable(message.message) }
    try await remove(held)
    metrics.messagesGivenUp(held.count, because: reason)
  }

  func delivered(_ held: [HeldMessage]) async throws(Problem) {
    guard !held.isEmpty else { return }
    try await remove(held)
    metrics.messagesDelivered(held.count)
  }

  private func remove(_ held: [HeldMessage]) async throws(Problem) {
    try await storing { () async throws(StoreError) in try await store.removeHeld(held.map(\.sequence)) }
  }
}
