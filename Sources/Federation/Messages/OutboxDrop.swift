package import RelayCore
import RelayWork

/// Takes messages out of a peer's outbox at the operator's word, telling their senders first.
package struct OutboxDrop: Sendable {
  package struct Outcome: Sendable, Equatable {
    package var dropped = 0
    /// The sequences that were asked for and are not there.
    package var unknown: Set<Int64> = []
  }

  private let store: any OutboxStore
  private let lease: Lease<StoreError>
  private let removal: OutboxRemoval

  private static let interrupted = Problem(
    .unavailable, reason: "another process has taken the outbox over, or this one was told to end")

  package init(store: any OutboxStore & LeaseStore, intake: any Intake, ledger: HandOverLedger) {
    self.init(store: store, intake: intake, ledger: ledger, holder: .random(in: 1...Int64.max))
  }

  init(store: any OutboxStore & LeaseStore, intake: any Intake, ledger: HandOverLedger, holder: Int64) {
    self.store = store
    lease = store.lease(holder: holder)
    removal = OutboxRemoval(store: store, intake: intake, metrics: OutboxMetrics(), ledger: ledger)
  }

  /// Killed in between, it leaves the rest held; repeating it goes on.
  /// - Parameters:
  ///   - sequences: which messages; nil for all.
  ///   - progress: called with how many are gone so far, after each page.
  /// - Returns: nil, with nothing done, when a process is just handing messages over to that peer.
  /// - Throws: `.unavailable`, with some of it done, when the store fails, another process takes the outbox over, or
  ///   the task is cancelled.
  package func drop(
    _ sequences: Set<Int64>?, of relay: RelayName, progress: @escaping @Sendable (Int) -> Void
  ) async throws(Problem) -> Outcome? {
    let result = try await storing { () async throws(StoreError) in
      try await lease.hold(Outbox.leaseName(relay)) { await remove(sequences, of: relay, progress: progress) }
    }
    return try result?.get()
  }

  private func remove(
    _ sequences: Set<Int64>?, of relay: RelayName, progress: @Sendable (Int) -> Void
  ) async -> Result<Outcome, Problem> {
    var outcome = Outcome(unknown: sequences ?? [])
    var last: Int64 = 0
    do throws(Problem) {
      while true {
        let page = try await storing { [last] () async throws(StoreError) in
          try await store.held(for: relay, after: last, limit: OutboxDrain.pageMax)
        }
        guard !Task.isCancelled else { throw Self.interrupted }
        guard let end = page.last?.sequence else { return .success(outcome) }
        let chosen = page.filter { sequences?.contains($0.sequence) ?? true }
        try await removal.giveUp(chosen, because: .dropped)
        outcome.dropped += chosen.count
        outcome.unknown.subtract(chosen.map(\.sequence))
        progress(outcome.dropped)
        if sequences != nil, outcome.unknown.isEmpty { return .success(outcome) }
        last = end
      }
    } catch {
      return .failure(error)
    }
  }
}
