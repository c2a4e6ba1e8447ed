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
              AND day >= (now() AT TIME ZONE 'UTC')::date - 1)
        """),
      PostgresParameters {
        $0.add(account: mailbox.account)
        $0.add(device: mailbox.device)
        $0.add(account: source)
        $0.add(bigint: timestamp.millis)
        $0.add(date: days.first(of: mailbox).day)
        $0.add(smallint: MessageType.receipt.rawValue)
      })
    var row = result.cursor(row: 0)
    return try row.boolean()
  }

  package func usage(of mailbox: DeviceAddress, by source: AccountNumber, countingTo max: Int)
    async throws(StoreError) -> MailboxUsage
  {
    let result = try await read(
      .prepared(
        "mailbox_usage",
        """
        SELECT
          (
            SELECT count(*) FROM (
              SELECT FROM messages WHERE account = $1::bigint AND device = $2::integer AND day >= $4::date
              LIMIT $5::bigint
            ) AS queued
          ),
          (
            SELECT count(*) FROM (
              SELECT FROM messages
              WHERE account = $1::bigint AND device = $2::integer AND source = $3::bigint AND day >= $4::date
              LIMIT $5::bigint
            ) AS queued
          )
        """),
      PostgresParameters {
        $0.add(account: mailbox.account)
        $0.add(device: mailbox.device)
        $0.add(account: source)
        $0.add(date: days.first(of: mailbox).day)
        $0.add(bigint: Int64(max))
      })
    var row = result.cursor(row: 0)
    return MailboxUsage(total: Int(try row.bigint()), bySource: Int(try row.bigint()))
  }
}
