import RelayCore

/// What peers have named lately, so that one that goes on naming epochs costs the store one call a second.
///
/// Not older than a second: another process may have been told a higher one. An epoch that is named between two calls
/// goes to the store with the next; if this process dies before, the peer's next one, ten seconds later, makes up for it.
actor EpochMemory {
  private struct Entry {
    /// Of all that the peer has named, here and, when the store was asked last, anywhere.
    var highest: Int64
    let asked: ContinuousClock.Instant
  }

  private let store: any EpochStore
  /// By the fingerprint of the peer's CA: whoever takes over the name of a removed peer begins anew. Of active peers
  /// alone, and none stays for longer than `entryLife`.
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
