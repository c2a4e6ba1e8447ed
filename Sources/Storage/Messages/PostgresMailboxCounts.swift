// Questions about a mailbox beside its messages. Each looks through one mailbox, which its quota bounds. It goes with
// the other reads, since the sender of a message waits for the answer.

package import RelayCore

extension PostgresStorage {
  package func standing(of timestamp: Timestamp, from source: AccountNumber, in mailbox: DeviceAddress)
    async throws(StoreError) -> MessageStanding
  {
    let account = PostgresParameter(mailbox.account)
    let device = PostgresParameter(mailbox.device)
    let source = PostgresParameter(source)
    let timestamp = PostgresParameter(timestamp)
    let layout = await layout
    let result = try await read(
      "standing",
      """
      SELECT
        EXISTS (
          SELECT FROM messages
          WHERE account = \(account) AND device = \(device) AND source = \(source) AND sent = \(timestamp)
            AND day >= \(PostgresDate(days.first(of: mailbox).day)) AND type < \(MessageType.receipt.rawValue)),
        EXISTS (
          SELECT FROM acknowledged
          WHERE account = \(account) AND device = \(device) AND source = \(source) AND sent = \(timestamp)
            AND day >= \(presentDay: layout, PostgresParameter(seenDay.map(PostgresDate.init))) - 1)
      """)
    var row = result.cursor(row: 0)
    let (isQueued, isAcknowledged) = (try row.boolean(), try row.boolean())
    return isQueued ? .queued : isAcknowledged ? .acknowledged : .unknown
  }

  package func isKnown(_ envelopes: [Envelope]) async throws(StoreError) -> Bool {
    guard let first = envelopes.first else { return true }
    let account = PostgresParameter(first.destination.account)
    let seenDay = PostgresParameter(seenDay.map(PostgresDate.init))
    let layout = await layout
    let result = try await read(
      "known",
      """
      SELECT NOT EXISTS (
        SELECT FROM unnest(\(each: envelopes.lazy.map(\.destination.device)), \(each: envelopes.lazy.map(\.fingerprint)))
          AS i (device, fingerprint)
        WHERE NOT EXISTS (
            SELECT FROM messages AS m
            WHERE m.account = \(account) AND m.device = i.device AND m.fingerprint = i.fingerprint
              AND m.day >= \(presentDay: layout, seenDay) - 1)
          AND NOT EXISTS (
            SELECT FROM acknowledged AS a
            WHERE a.account = \(account) AND a.device = i.device AND a.fingerprint = i.fingerprint
              AND a.day >= \(presentDay: layout, seenDay) - 1))
      """)
    var row = result.cursor(row: 0)
    return try row.boolean()
  }

  package func usage(
    of mailbox: DeviceAddress, by source: AccountNumber, from peer: RelayName?, countingTo max: Int
  ) async throws(StoreError) -> MailboxUsage {
    guard let peer else { return try await usageByOwn(of: mailbox, by: source, countingTo: max) }
    return try await usageByPeers(of: mailbox, by: source, from: peer, countingTo: max)
  }

  private func usageByPeers(
    of mailbox: DeviceAddress, by source: AccountNumber, from peer: RelayName, countingTo max: Int
  ) async throws(StoreError) -> MailboxUsage {
    let (account, device) = (PostgresParameter(mailbox.account), PostgresParameter(mailbox.device))
    let firstDay = PostgresParameter(PostgresDate(days.first(of: mailbox).day))
    let max = PostgresParameter(Int64(max))
    let result = try await read(
      "mailbox_usage_of_peers",
      """
      SELECT
        (
          SELECT count(*) FROM (
            SELECT FROM messages
            WHERE account = \(account) AND device = \(device) AND day >= \(firstDay) LIMIT \(max)
          ) AS queued
        ),
        (
          SELECT count(*) FROM (
            SELECT FROM messages
            WHERE account = \(account) AND device = \(device) AND day >= \(firstDay) AND source = \(source) LIMIT \(max)
          ) AS queued
        ),
        (
          SELECT count(*) FROM (
            SELECT FROM messages
            WHERE account = \(account) AND device = \(device) AND day >= \(firstDay) AND relay IS NOT NULL LIMIT \(max)
          ) AS queued
        ),
        (
          SELECT count(*) FROM (
            SELECT FROM messages
            WHERE account = \(account) AND device = \(device) AND day >= \(firstDay) AND relay = \(peer) LIMIT \(max)
          ) AS queued
        )
      """)
    var row = result.cursor(row: 0)
    return MailboxUsage(
      total: Int(try row.bigint()), bySource: Int(try row.bigint()), byPeers: Int(try row.bigint()),
      byPeer: Int(try row.bigint()))
  }

  /// Asks nothing about peers, for the traffic of this relay alone.
  private func usageByOwn(
    of mailbox: DeviceAddress, by source: AccountNumber, countingTo max: Int
  ) async throws(StoreError) -> MailboxUsage {
    let (account, device) = (PostgresParameter(mailbox.account), PostgresParameter(mailbox.device))
    let firstDay = PostgresParameter(PostgresDate(days.first(of: mailbox).day))
    let max = PostgresParameter(Int64(max))
    let result = try await read(
      "mailbox_usage",
      """
      SELECT
        (
          SELECT count(*) FROM (
            SELECT FROM messages
            WHERE account = \(account) AND device = \(device) AND day >= \(firstDay) LIMIT \(max)
          ) AS queued
        ),
        (
          SELECT count(*) FROM (
            SELECT FROM messages
            WHERE account = \(account) AND device = \(device) AND day >= \(firstDay) AND source = \(source) LIMIT \(max)
          ) AS queued
        )
      """)
    var row = result.cursor(row: 0)
    return MailboxUsage(total: Int(try row.bigint()), bySource: Int(try row.bigint()))
  }
}
