/// Counts what crosses between this relay and each peer, by the hour (docs/federation.md, "The loss ledger").
///
/// Every crossing is counted once for each outcome, however often and by whichever process it is told. A crossing
/// that is handed over again counts as handed over once. One that was answered or refused counts as that once. A
/// refused crossing that is handed over again is counted anew.
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
  /// Days for which marks are kept after they were noted. A message's mark outlives the time that the message may
  /// wait for a peer, and the time in which a receipt may come for it. A receipt's mark is kept for as long as the
  /// recipient's relay may know a repeated one, and a day more.
  package static func markDays(of kind: Crossing.Kind) -> Int32 { kind == .message ? 32 : 3 }
  /// Hours that lie further ahead are those of clients' wrong clocks. Nearer ones are kept: they come.
  package static let hoursAhead: Int32 = 35 * 24
}

/// Which messages were handed over to peers, so that a receipt is taken for them alone (docs/federation.md,
/// "Receipts").
package protocol HandOverStore: LedgerStore {
  /// Whether a message with `tag`, whose sender's time is in `hour`, was recorded within `WireLimits.receiptDays`
  /// (UTC), and not as refused since.
  func wasHandedOver(_ tag: HandOverTag, in hour: LedgerHour) async throws(StoreError) -> Bool
}

/// The tag of one message that was handed over: 64 bits over the peer, both accounts and the sender's time, under a
/// key of this relay. A reader of the store without the key learns nothing of who wrote to whom. Only this relay can
/// make a tag.
package struct HandOverTag: Sensitive, Sendable, Hashable {
  package static let kind: StaticString = "hand-over tag"
  package let bits: Int64
  package init(bits: Int64) { self.bits = bits }
}
