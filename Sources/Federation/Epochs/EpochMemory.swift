import RelayCore

/// The epochs that peers have named lately. A peer that keeps naming epochs costs the store one call a second.
///
/// An entry serves for a second at most, because another process may have been told a higher epoch. An epoch that is
/// named between two calls goes to the store with the next call. If this process dies first, the peer's next epoch,
/// ten seconds later, makes up for it.
actor EpochMemory {
  private struct Entry {
    /// The highest epoch that the peer has named to this process, or had named to any process at the last call of the
    /// store.
    var highest: Int64
    let asked: ContinuousClock.Instant
  }

  private let store: any EpochStore
  /// By the fingerprint of the peer's CA: a relay that takes over the name of a removed peer begins anew. Holds
  /// active peers only. No entry stays for longer than `entryLife`.
  private var entries: [[UInt8]: Entry] = [:]
  private var calls: [[UInt8]: Task<Result<Int64?, StoreError>, Never>] = [:]

  private static let interval = Duration.seconds(1)
  /// Far longer than a peer takes to name its next one.
  private static let entryLife = Duration.seconds(60)

  init(store: any EpochStore) { self.store = store }

  /// - Returns: the highest epoch that `peer` named before, 0 for none; nil when the store has no such peer.
  func remember(_ epoch: Int64, of peer: KnownPeer) async throws(StoreError) -> Int64? {
    let key = peer.fingerprint
    while true {
      if let entry = entries[key], ContinuousClock.now - entry.asked < Self.interval {
        entries[key]?.highest = max(entry.highest, epoch)
        return entry.highest
      }
      if let call = calls[key] {
        // Shares its failure, or finds what it has brought.
        guard try await call.value.get() != nil else { return nil }
      } else {
        let call = Task { await ask(epoch, of: peer.name, key) }
        calls[key] = call
        return try await call.value.get()
      }
    }
  }

  private func ask(_ epoch: Int64, of name: RelayName, _ key: [UInt8]) async -> Result<Int64?, StoreError> {
    defer { calls[key] = nil }
    let former = entries[key]?.highest ?? 0
    let answer: Int64?
    do throws(StoreError) {
      answer = try await store.rememberEpoch(max(former, epoch), of: name)
    } catch {
      return .failure(error)
    }
    let now = ContinuousClock.now
    entries = entries.filter { now - $0.value.asked < Self.entryLife }
    let known = answer.map { max(former, $0) }
    entries[key] = known.map { Entry(highest: max($0, epoch), asked: now) }
    return .success(known)
  }
}
