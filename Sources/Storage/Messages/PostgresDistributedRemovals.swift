// Removals in a distributed store: the mailboxes of one call lie at several servers, and the receipts' at others.

import RelayCore

extension PostgresStorage {
  /// As `removeStep`, behind `removedTable` in one transaction. The first answer is the rows that were removed.
  ///
  /// The coordinator keeps the removed rows in a table of the session, from which the other steps store what is due.
  /// Parts of one statement would be sent to all servers. Physical places only mean something at one server: a row that
  /// another transaction is just removing is waited for, and then is not there.
  ///
  /// Receipts go to accounts that only the removed rows name. A receipt that its mailbox has since yesterday is stored
  /// again: to look for it would ask all servers each time.
  static func distributedRemoveSteps(
    _ removals: ArraySlice<MailboxRemoval>, from firstDay: PostgresMailboxDays.Day, seenDay: PostgresMailboxDays.Day?
  ) -> [PostgresStep] {
    let accounts = PostgresParameter(each: removals.lazy.map(\.place.mailbox.account))
    let ends = removals.reduce(into: []) { $0.append(($0.last ?? 0) + Int32($1.receipt?.devices.count ?? 0)) }
    let remove = PostgresStep(
      "remove",
      """
      \(reserving: 300 + 84 * removals.count)
      WITH removed AS (
        DELETE FROM messages AS m
        USING unnest(
            \(accounts), \(each: removals.lazy.map(\.place.mailbox.device)),
            \(each: removals.lazy.map(\.place.sequence)),
            \(each: removals.lazy.map { Int32($0.receipt?.devices.count ?? 0) }), \(each: ends),
            \(each: removals.lazy.map(\.receipt?.fingerprint)))
          AS f (account, device, sequence, receipts, ended, fingerprint)
        WHERE m.account = f.account AND m.device = f.device AND m.sequence = f.sequence
          AND m.day >= \(PostgresDate(firstDay))\(routing: .distributed, "m", to: accounts)
        RETURNING m.account, m.device, m.sequence, m.type, m.source, m.relay, m.sent, m.fingerprint, f.receipts,
          f.ended, f.fingerprint AS receipt
      )
      INSERT INTO relay_removed
      SELECT account, device, sequence, type, source, relay, sent, fingerprint, receipts, ended, receipt FROM removed
      RETURNING account, device, sequence
      """)
    let devices = removals.flatMap { $0.receipt?.devices ?? [] }
    return [remove, rememberStep(seenDay)] + (devices.isEmpty ? [] : [receiptsStep(to: devices, seenDay)])
  }

  /// The table of a session that removes messages. A transaction leaves it empty.
  static let removedTable = PostgresStep(
    .once(
      """
      CREATE TEMPORARY TABLE IF NOT EXISTS relay_removed (
        account bigint, device integer, sequence bigint, type smallint, source bigint, relay text, sent bigint,
        fingerprint uuid, receipts integer, ended integer, receipt uuid
      ) ON COMMIT DELETE ROWS
      """))

  private static func rememberStep(_ seenDay: PostgresMailboxDays.Day?) -> PostgresStep {
    let receipt = PostgresParameter(MessageType.receipt.rawValue)
    return PostgresStep(
      "remember_removed",
      """
      INSERT INTO acknowledged (account, device, fingerprint, day, source, sent)
      SELECT account, device, fingerprint, relay_arrival_day(\(seenDay.map(PostgresDate.init))),
        CASE WHEN type < \(receipt) THEN source END, CASE WHEN type < \(receipt) THEN sent END
      FROM relay_removed
      WHERE type <> \(receipt) OR relay IS NOT NULL
      ORDER BY account, device, fingerprint
      ON CONFLICT DO NOTHING
      """)
  }

  /// - Parameter devices: of all removals, one stretch for each.
  private static func receiptsStep(to devices: [DeviceID], _ seenDay: PostgresMailboxDays.Day?) -> PostgresStep {
    PostgresStep(
      "store_receipts",
      """
      INSERT INTO messages (account, device, sequence, day, type, source, source_device, sent, fingerprint)
      SELECT account, device, sequence, day, \(MessageType.receipt.rawValue), source, source_device, sent, fingerprint
      FROM (
        SELECT nextval('message_sequence') AS sequence, due.* FROM (
          SELECT r.source AS account, d.device, c.today AS day, r.account AS source, r.device AS source_device,
            r.sent, r.receipt AS fingerprint
          FROM relay_removed AS r
          CROSS JOIN LATERAL unnest((\(each: devices))[r.ended - r.receipts + 1 : r.ended]) AS d (device)
          CROSS JOIN (SELECT relay_arrival_day(\(seenDay.map(PostgresDate.init))) AS today) AS c
          ORDER BY r.sequence
        ) AS due
      ) AS numbered
      ORDER BY account, device, fingerprint
      ON CONFLICT (account, device, fingerprint, day) DO NOTHING
      """)
  }

  static func distributedQueuedStep(_ places: ArraySlice<MailboxPlace>, from firstDay: PostgresMailboxDays.Day)
    -> PostgresStep
  {
    let accounts = PostgresParameter(each: places.lazy.map(\.mailbox.account))
    return PostgresStep(
      "queued",
      """
      \(reserving: 200 + 36 * places.count)
      SELECT m.account, m.device, m.sequence
      FROM unnest(\(accounts), \(each: places.lazy.map(\.mailbox.device)), \(each: places.lazy.map(\.sequence)))
        AS p (account, device, sequence)
      JOIN messages AS m ON m.account = p.account AND m.device = p.device AND m.sequence = p.sequence
      WHERE m.day >= \(PostgresDate(firstDay))\(routing: .distributed, "m", to: accounts)
      """)
  }
}
