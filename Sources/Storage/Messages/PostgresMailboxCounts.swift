// What is asked of a mailbox beside its messages. Each question looks through one mailbox, which its quota bounds, and
// with the other reads: whoever sends a message waits for the answer.

package import RelayCore

extension PostgresStorage {
  package func hasReceived(from source: AccountNumber, timestamp: Timestamp, in mailbox: DeviceAddress)
    async throws(StoreError) -> Bool
  {
    let result = try await read(
      .prepared(
        "has_received",
        """
        SELECT EXISTS (
            SELECT FROM messages
            WHERE account = $1::bigint AND device = $2::integer AND source = $3::bigint AND sent = $4::bigint
              AND day >= $5::date AND type < $6::smallint)
          OR EXISTS (
            SELECT FROM acknowledged
            WHERE account = $1::bigint AND device = $2::integer AND source = $3::bigint AND sent = $4::bigint
              AND day >= relay_present_day($7::date) - 1)
        """),
      PostgresParameters {
        $0.add(account: mailbox.account)
        $0.add(device: mailbox.device)
        $0.add(account: source)
        $0.add(bigint: timestamp.millis)
        $0.add(date: days.first(of: mailbox).day)
        $0.add(smallint: MessageType.receipt.rawValue)
        $0.add(integer: seenDay)
      })
    var row = result.cursor(row: 0)
    return try row.boolean()
  }

  package func usage(
    of mailbox: DeviceAddress, by source: AccountNumber, from peer: RelayName?, countingTo max: Int
  ) async throws(StoreError) -> MailboxUsage {
    let result = try await read(
      peer == nil ? Self.usage : Self.usageOfPeers,
      PostgresParameters {
        $0.add(account: mailbox.account)
        $0.add(device: mailbox.device)
        $0.add(account: source)
        $0.add(date: days.first(of: mailbox).day)
        $0.add(bigint: Int64(max))
        if let peer { $0.add(text: peer.text) }
      })
    var row = result.cursor(row: 0)
    let (total, bySource) = (Int(try row.bigint()), Int(try row.bigint()))
    guard peer != nil else { return MailboxUsage(total: total, bySource: bySource) }
    return MailboxUsage(
      total: total, bySource: bySource, byPeers: Int(try row.bigint()), byPeer: Int(try row.bigint()))
  }

  private static let usage = PostgresStatement.prepared(
    "mailbox_usage",
    """
    SELECT
      (
        SELECT count(*) FROM (
          SELECT FROM messages
          WHERE account = $1::bigint AND device = $2::integer AND day >= $4::date
          LIMIT $5::bigint
        ) AS queued
      ),
      (
        SELECT count(*) FROM (
          SELECT FROM messages
          WHERE account = $1::bigint AND device = $2::integer AND day >= $4::date AND source = $3::bigint
          LIMIT $5::bigint
        ) AS queued
      )
    """)

  private static let usageOfPeers = PostgresStatement.prepared(
    "mailbox_usage_of_peers",
    """
    SELECT
      (
        SELECT count(*) FROM (
          SELECT FROM messages
          WHERE account = $1::bigint AND device = $2::integer AND day >= $4::date
          LIMIT $5::bigint
        ) AS queued
      ),
      (
        SELECT count(*) FROM (
          SELECT FROM messages
          WHERE account = $1::bigint AND device = $2::integer AND day >= $4::date AND source = $3::bigint
          LIMIT $5::bigint
        ) AS queued
      ),
      (
        SELECT count(*) FROM (
          SELECT FROM messages
          WHERE account = $1::bigint AND device = $2::integer AND day >= $4::date AND relay IS NOT NULL
          LIMIT $5::bigint
        ) AS queued
      ),
      (
        SELECT count(*) FROM (
          SELECT FROM messages
          WHERE account = $1::bigint AND device = $2::integer AND day >= $4::date AND relay = $6::text
          LIMIT $5::bigint
        ) AS queued
      )
    """)
}
