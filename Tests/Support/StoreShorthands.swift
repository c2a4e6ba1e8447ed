// Calls to the stores with what most tests leave out.

package import RelayCore

extension NotificationStore {
  package func removeNotificationAccount(_ name: NotificationUser) async throws(StoreError) -> Bool {
    try await removeNotificationAccount(name) { _ in }
  }
  package func addRecipient(
    _ number: RecipientNumber, _ key: RecipientKey, of account: NotificationUser, subject: NotificationText,
    now: Timestamp
  ) async throws(StoreError) -> RecipientAddition {
    try await addRecipient(number, key, of: account, subject: subject, recipientsMax: .max, now: now)
  }
  package func finishPush(_ job: NotificationJob) async throws(StoreError) {
    try await settlePushes([PushSettlement(job, .finished)])
  }
  package func putOffPush(_ job: NotificationJob, until time: Timestamp, isCounted: Bool) async throws(StoreError) {
    try await settlePushes([PushSettlement(job, .putOff(until: time, isCounted: isCounted))])
  }
}

extension OutboxStore {
  /// Counts nothing.
  package func hold(_ messages: [PeerSubmission], for relay: RelayName, bounds: OutboxBounds, now: Timestamp)
    async throws(StoreError) -> [Bool]
  {
    try await hold(messages, counting: [], for: relay, bounds: bounds, now: now)
  }

  /// Counts nothing.
  package func removeHeld(_ sequences: [Int64]) async throws(StoreError) {
    try await removeHeld(sequences, counting: nil)
  }
}

extension DirectoryStore {
  /// How many contacts `peer` lists.
  package func contactCount(of peer: RelayName) async throws(StoreError) -> Int {
    try await contactCounts(of: peer).listed
  }
}
