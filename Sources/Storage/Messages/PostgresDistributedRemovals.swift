// Removals in a distributed store: the mailboxes of one statement lie at several servers, and the receipts' at others.

import RelayCore

extension PostgresStorage {
  /// As `removeStep`, without physical places, which only mean something at one server. A row that another transaction
  /// is just removing is waited for, and then is not there.
  ///
  /// Each part is a statement of its own in the transaction, in the order in which they stand here. `held` are receipts
  /// that their mailboxes have.
  static func distributedRemoveStep(
    _ removals: ArraySlice<MailboxRemoval>, from firstDay: PostgresMailboxDays.Day, seenDay: PostgresMailboxDays.Day?
  ) -> PostgresStep {
    let accounts = PostgresParameter(each: removals.lazy.map(\.place.mailbox.account))
    let receipt = PostgresParameter(MessageType.receipt.rawValue)
    let seenDay = PostgresParameter(seenDay.map(PostgresDate.init))
    let ends = removals.reduce(into: []) { $0.append(($0.last ?? 0) + Int32($1.receipt?.devices.count ?? 0)) }
    return PostgresStep(
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
            f.ended, f.fingerprint AS receipt_fingerprint
        ),
        remembered AS (
          INSERT INTO acknowledged (account, device, fingerprint, day, source, sent)
          SELECT account, device, fingerprint, relay_arrival_day(\(seenDay)),
            CASE WHEN type < \(receipt) THEN source END, CASE WHEN type < \(receipt) THEN sent END
          FROM removed
          WHERE type <> \(receipt) OR relay IS NOT NULL
          ORDER BY account, device, fingerprint
          ON CONFLICT DO NOTHING
        )\(receipts: removals, receipt, seenDay)
      SELECT account, device, sequence FROM removed
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

extension PostgresQuery.Interpolation {
  /// The parts that store receipts.
  fileprivate mutating func appendInterpolation(
    receipts removals: ArraySlice<MailboxRemoval>, _ receipt: PostgresParameter, _ seenDay: PostgresParameter
  ) {
    appendLiteral(
      """
      ,
        due AS MATERIALIZED (
          SELECT r.source AS account, d.device, r.account AS source, r.device AS source_device, r.sent,
            r.receipt_fingerprint AS fingerprint, r.sequence AS place
          FROM removed AS r CROSS JOIN LATERAL unnest((
      """)
    appendInterpolation(each: removals.flatMap { $0.receipt?.devices ?? [] })
    appendLiteral(
      """
      )[r.ended - r.receipts + 1 : r.ended]) AS d (device)
        ),
        held AS MATERIALIZED (
          SELECT m.account, m.device, m.fingerprint
          FROM due AS d
          JOIN messages AS m ON m.account = d.account AND m.device = d.device AND m.fingerprint = d.fingerprint
          WHERE m.day >=
      """)
    appendLiteral(" ")
    appendInterpolation(presentDay: .distributed, seenDay)
    appendLiteral(
      """
       - 1
        ),
        receipted AS (
          INSERT INTO messages (account, device, sequence, day, type, source, source_device, sent, fingerprint)
          SELECT account, device, sequence, day,
      """)
    appendLiteral(" ")
    appendInterpolation(receipt)
    appendLiteral(
      """
      , source, source_device, sent, fingerprint
          FROM (
            SELECT nextval('message_sequence') AS sequence, news.* FROM (
              SELECT d.account, d.device, d.source, d.source_device, d.sent, d.fingerprint, relay_arrival_day(
      """)
    appendInterpolation(seenDay)
    appendLiteral(
      """
      ) AS day
              FROM due AS d
              WHERE NOT EXISTS (
                SELECT FROM held AS h
                WHERE h.account = d.account AND h.device = d.device AND h.fingerprint = d.fingerprint)
              ORDER BY d.place
            ) AS news
          ) AS numbered
          ORDER BY account, device, fingerprint
          ON CONFLICT (account, device, fingerprint, day) DO NOTHING
        )
      """)
  }
}
