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
