package import RelayCore
import Synchronization

/// Takes messages out of a peer's outbox at the operator's word, telling their senders first.
package struct OutboxDrop: Sendable {
  package struct Outcome: Sendable, Equatable {
    package var dropped = 0
    /// Of those that were asked for by their sequence.
    package var unknown: Set<Int64> = []
  }

  private let store: any OutboxStore
  private let lease: OutboxLease
  private let removal: OutboxRemoval

  package init(store: any OutboxStore & LeaseStore, intake: any Intake) {
    self.store = store
    lease = OutboxLease(store: store, holder: .random(in: 1...Int64.max))
    removal = OutboxRemoval(store: store, intake: intake, metrics: OutboxMetrics())
  }

  /// Killed in between, it leaves the rest held; repeating it goes on.
  /// - Parameters:
  ///   - sequences: which messages; nil for all.
  ///   - progress: called with how many are gone so far, after each page.
  /// - Returns: nil, with nothing done, when a process is just handing messages over to that peer.
  package func drop(
    _ sequences: Set<Int64>?, of relay: RelayName, progress: @escaping @Sendable (Int) -> Void
  ) async throws(Problem) -> Outcome? {
    let outcome = Mutex(Outcome(unknown: sequences ?? []))
    let isDone = try await lease.hold(for: relay) { () async throws(Problem) in
      var last: Int64 = 0
      while !Task.isCancelled {
        let page = try await storing { [last] () async throws(StoreError) in
          try await store.held(for: relay, after: last, limit: OutboxDrain.pageMax)
        }
        guard let end = page.last?.sequence else { return }
        let chosen = page.filter { sequences?.contains($0.sequence) ?? true }
        try await removal.giveUp(chosen, because: .dropped)
        let (count, isComplete) = outcome.withLock { outcome in
          outcome.dropped += chosen.count
          outcome.unknown.subtract(chosen.map(\.sequence))
          return (outcome.dropped, sequences != nil && outcome.unknown.isEmpty)
        }
        progress(count)
        if isComplete { return }
        last = end
      }
    }
    return isDone ? outcome.withLock { $0 } : nil
  }
}
