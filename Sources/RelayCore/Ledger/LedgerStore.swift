/// Counts what crosses between this relay and each peer, by the hour (docs/federation.md, "The loss ledger").
///
/// Every crossing is counted once for what becomes of it, however often and by whichever process it is told: what is handed
/// over again is handed over once, and what was answered or refused is so once. What was refused and is handed over again
/// is counted anew.
package protocol LedgerStore: Sendable {
  /// Counts what `record` says, as far as it is news: `.handedOver`, `.answered`, of what was never handed over by this
  /// store's knowledge both, `.refused` of what was handed over and has no answer, `.turnedDown` always. `.accepted` is
  /// counted by `MessageStore.append` alone.
  ///
  /// On return every process of this operator sees it. It is not flushed to the disk at once.
  func record(_ record: LedgerRecord) async throws(StoreError)
  /// - Returns: what was counted of `relay` in `hours`, ascending by hour, kind and event; nothing where nothing was.
  func ledger(of relay: RelayName, in hours: ClosedRange<LedgerHour>) async throws(StoreError) -> [LedgerEntry]
}

/// How long the ledger is kept, for both stores.
package enum LedgerLife {
  /// Counts.
  package static let hours: Int32 = 35 * 24
  /// Marks, since they were noted. Of a message as long as it may wait for a peer, and a receipt may come for it, and more;
  /// of a receipt as long as a repeated one may be known by its recipient's relay, and a day more.
  package static func markDays(of kind: Crossing.Kind) -> Int32 { kind == .message ? 32 : 3 }
  /// Hours that lie further ahead are those of clients' wrong clocks. Nearer ones are kept: they come.
  package static let hoursAhead: Int32 = 35 * 24
}
