// The contracts of durable storage. Two implementations keep them, PostgreSQL and SQLite, and one contract
// suite (Tests/StorageTests) holds both to it.
//
// Common to all: a method is one intention and one transaction; it is durable on return; it throws
// `.unavailable` when nothing was stored; empty input is allowed and does nothing; it never blocks an event
// loop or the shared thread pool.

/// All durable stores of one relay, over one database.
package protocol Storage: AccountStore, AccountReportStore, AccountRemovalStore, PreKeyStore, EpochStore, MessageStore,
  MissedWakeUpStore, AttachmentStore, DirectoryFeedStore, ContactClaimStore, ObliviousStore, PeerStore, OutboxStore,
  HandOverStore,
  WakeStore, NotificationStore, LeaseStore, ServerSecretStore, ContactSealingStore, SchemaStore, ClockStore, AuditStore
{
  /// Whether the store answers just now, for `/readyz`.
  func ping() async throws(StoreError)
  /// Stores some 32 KB and removes them again: whether the store takes writes just now.
  func tryWriting() async throws(StoreError)
  /// The writes that the store refused because its disk is full or failed.
  var refusals: WriteRefusals { get }
  /// Ends every connection. Calls in flight fail with `.unavailable`.
  func close() async
}
