/// The mailboxes.
package protocol MessageStore: Sendable {
  /// Appends `envelopes` to their mailboxes, all or none.
  ///
  /// Durable on return. Safe to repeat: an envelope whose fingerprint its mailbox took in, or had acknowledged, today
  /// or yesterday (UTC) is not stored again. Only an acknowledged receipt of this relay is: `remove` does not remember
  /// it. Appends of one caller that wait for each other keep their order.
  /// - Parameter watch: is told of the places of what was stored; nil for nobody.
  func append(_ envelopes: [Envelope], watch: (any AppendWatch)?) async throws(StoreError)

  /// The oldest envelopes of `mailbox` by order of acceptance, at most `limit` (1 or more), all with a sequence
  /// above `after`.
  func pending(in mailbox: DeviceAddress, after: Int64, limit: Int) async throws(StoreError) -> [QueuedEnvelope]

  /// The oldest envelopes of several mailboxes that are not held already, in one round trip. Each mailbox gives at
  /// most its limit, by order of acceptance. A read sees every envelope that was accepted before it began
  /// (docs/delivery.md, "Order"). So a reader that leaves out what it holds, and keeps no position, misses nothing.
  /// - Parameter reads: of different mailboxes.
  /// - Returns: one list for each read, in the order of `reads`; possibly empty.
  func waiting(_ reads: [MailboxRead]) async throws(StoreError) -> [[QueuedEnvelope]]

  /// Removes messages from their mailboxes, and stores their receipts in those of the senders. A receipt becomes
  /// durable with the removal of its message, or neither is done. It is stored once, however often a message is named,
  /// and it is not stored while a mailbox has it already.
  ///
  /// Removed messages are remembered for `append` and `standing`. Receipts of accounts of this relay are not: nothing
  /// repeats them but a client's own word, and to be told twice is harmless. A peer's are, since they are counted.
  /// - Returns: what was there, and is not any more, because of this call.
  func remove(_ removals: [MailboxRemoval]) async throws(StoreError) -> Set<MailboxPlace>

  /// - Returns: those of `places` that hold an envelope. Reads only.
  func queued(among places: [MailboxPlace]) async throws(StoreError) -> Set<MailboxPlace>

  /// The oldest envelope in `mailbox` with that source and timestamp, and a sequence above `after`.
  func oldest(from source: AccountNumber, timestamp: Timestamp, in mailbox: DeviceAddress, after: Int64)
    async throws(StoreError) -> QueuedEnvelope?

  /// Whether `mailbox` has taken in what `source` sent at `timestamp`: it is queued, or was acknowledged today or
  /// yesterday (UTC). Notices (`MessageType.isNotice`) do not count. Of several messages, one that is queued does.
  func standing(of timestamp: Timestamp, from source: AccountNumber, in mailbox: DeviceAddress)
    async throws(StoreError) -> MessageStanding

  /// Whether `append` of `envelopes` would store none of them: each mailbox knows its own.
  /// - Parameter envelopes: for mailboxes of one account; of none there is nothing to store.
  func isKnown(_ envelopes: [Envelope]) async throws(StoreError) -> Bool

  /// How many envelopes are queued, each number counted to `max` at most.
  /// - Parameter peer: nil where those of peers need not be counted.
  func usage(of mailbox: DeviceAddress, by source: AccountNumber, from peer: RelayName?, countingTo max: Int)
    async throws(StoreError) -> MailboxUsage

  /// Removes what is past its time: unfetched envelopes by `terms`, and by lifetimes of their own acknowledgements,
  /// codes, invitations, leases, confirmed devices, unlisted tokens, the audit log and the loss ledger
  /// (docs/architecture.md, "Removal with time"). Makes room for the days to come.
  ///
  /// Envelopes are dropped whole days at a time: two days at most in one run, or one stretch of days where they are
  /// kept in longer ones. Cheap when there is nothing to do; safe to run on every process at once.
  ///
  /// First it moves the last seen time on and teaches `ClockStore.judge`: a clock that is not believed removes
  /// nothing.
  /// - Returns: how many days, or stretches of days, were dropped.
  func maintain(_ terms: RetentionTerms) async throws(StoreError) -> Int
}

extension MessageStore {
  /// Tells nobody.
  package func append(_ envelopes: [Envelope]) async throws(StoreError) { try await append(envelopes, watch: nil) }
}

package struct MailboxUsage: Sendable, Equatable {
  package let total: Int
  /// The part of the total that one account sent.
  package let bySource: Int
  /// The envelopes that bear a peer's name, and those of one peer among them; 0 if they were not counted.
  package let byPeers: Int
  package let byPeer: Int
  package init(total: Int, bySource: Int, byPeers: Int = 0, byPeer: Int = 0) {
    self.total = total
    self.bySource = bySource
    self.byPeers = byPeers
    self.byPeer = byPeer
  }
}

/// The word of processes, in the store, that devices may have messages which nobody woke them for: a process that does
/// not reach Redis reaches the store.
package protocol MissedWakeUpStore: Sendable {
  /// A number that is another one after each `noteMissedWakeUps`.
  func missedWakeUps() async throws(StoreError) -> Int64
  /// Has all processes read the mailboxes of the devices that are connected to them.
  func noteMissedWakeUps() async throws(StoreError)
}

/// How long the store keeps what `MessageStore.maintain` removes, as far as the operator chooses it.
package struct RetentionTerms: Sendable, Equatable {
  /// From a message's arrival, if nobody fetches it.
  package var messages: Duration

  package init(messages: Duration = .seconds(30 * 86_400)) { self.messages = messages }
}
