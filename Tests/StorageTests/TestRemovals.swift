// Removals as tests of something else make them.

import RelayCore

extension MessageStore {
  /// Removes what is at `places`; nobody is told.
  func remove(_ places: [MailboxPlace]) async throws(StoreError) -> Set<MailboxPlace> {
    try await remove(places.map { MailboxRemoval($0, receipt: nil) })
  }

  /// Removes the oldest envelope with that source and timestamp; nobody is told.
  /// - Returns: nil when there was none, or somebody else took it.
  @discardableResult
  func acknowledge(source: AccountNumber, timestamp: Timestamp, in mailbox: DeviceAddress) async throws(StoreError)
    -> QueuedEnvelope?
  {
    guard let queued = try await oldest(from: source, timestamp: timestamp, in: mailbox, after: 0) else { return nil }
    return try await remove([MailboxPlace(mailbox, sequence: queued.sequence)]).isEmpty ? nil : queued
  }
}
