import RelayCore

/// The parts that the statements of an append have in common, `append` and `append_counted`.
struct PostgresAppend {
  let layout: PostgresLayout
  let accounts: PostgresParameter
  let devices: PostgresParameter
  let fingerprints: PostgresParameter
  let seenDay: PostgresParameter
  /// The accounts of watched mailboxes, in rising order: the statement looks a row's up by halves.
  let watched: PostgresParameter

  init(
    _ envelopes: [Envelope], _ watched: Set<DeviceAddress>, layout: PostgresLayout, seenDay: PostgresMailboxDays.Day?
  ) {
    self.layout = layout
    accounts = PostgresParameter(each: envelopes.lazy.map(\.destination.account))
    devices = PostgresParameter(each: envelopes.lazy.map(\.destination.device))
    fingerprints = PostgresParameter(each: envelopes.lazy.map(\.fingerprint))
    self.seenDay = PostgresParameter(seenDay.map(PostgresDate.init))
    self.watched = PostgresParameter(each: Set(watched.lazy.map(\.account.column)).sorted())
  }

  /// One more than a watch is told of.
  static let othersLimit = Int64(AppendedPlace.othersMax + 1)

  /// In a distributed store the statement that follows the append's, within its transaction: `account, device,
  /// sequence, others` of the stored rows. A statement that stores rows in shards cannot look for others there.
  ///
  /// It sees more than the append did, and names lower sequences alone: what had been accepted when the append began
  /// has one.
  static func othersStep(
    _ envelopes: [Envelope], in watched: Set<DeviceAddress>, seenDay: PostgresMailboxDays.Day?
  ) -> PostgresStep {
    let append = PostgresAppend(
      envelopes.filter { watched.contains($0.destination) }, watched, layout: .distributed, seenDay: seenDay)
    return PostgresStep(
      "append_others",
      """
      SELECT n.account, n.device, n.sequence, ARRAY(
          SELECT m.sequence FROM messages AS m
          WHERE m.account = n.account AND m.device = n.device AND m.sequence < n.sequence
            AND m.day >= \(presentDay: .distributed, append.seenDay) - 1
          ORDER BY m.sequence LIMIT \(othersLimit)
        )
      FROM unnest(\(append.accounts), \(append.devices), \(append.fingerprints)) AS i (account, device, fingerprint)
      JOIN messages AS n ON n.account = i.account AND n.device = i.device AND n.fingerprint = i.fingerprint
      WHERE n.day >= \(presentDay: .distributed, append.seenDay) - 1\(routing: .distributed, "n", to: append.watched)
      """)
  }
}

extension PostgresQuery.Interpolation {
  /// In a distributed store: `WITH known …`, what of the envelopes its mailbox has, or had acknowledged, of late. Both
  /// tables are looked at together, at the server of the account.
  /// - Parameter behind: what then leads on to the rest of the statement.
  mutating func appendInterpolation(known append: PostgresAppend, _ behind: StaticString) {
    guard append.layout == .distributed else { return }
    appendLiteral(
      """
      WITH known AS MATERIALIZED (
        SELECT k.account, k.device, k.fingerprint
        FROM (
          SELECT account, device, fingerprint, day FROM messages
          UNION ALL SELECT account, device, fingerprint, day FROM acknowledged
        ) AS k
        JOIN unnest(
      """)
    appendInterpolation(append.accounts)
    appendLiteral(", ")
    appendInterpolation(append.devices)
    appendLiteral(", ")
    appendInterpolation(append.fingerprints)
    appendLiteral(
      """
      ) AS i (account, device, fingerprint)
          ON k.account = i.account AND k.device = i.device AND k.fingerprint = i.fingerprint
        WHERE k.day >=
      """)
    appendLiteral(" ")
    appendInterpolation(presentDay: append.layout, append.seenDay)
    appendLiteral(" - 1")
    appendInterpolation(routing: append.layout, "k", to: append.accounts)
    appendLiteral(")")
    appendLiteral(behind)
  }

  /// The condition that `i` is news to its mailbox.
  mutating func appendInterpolation(isNews append: PostgresAppend) {
    guard append.layout == .whole else {
      appendLiteral(
        """
        NOT EXISTS (
          SELECT FROM known AS k
          WHERE k.account = i.account AND k.device = i.device AND k.fingerprint = i.fingerprint)
        """)
      return
    }
    appendLiteral(
      """
      NOT EXISTS (
                SELECT FROM acknowledged AS a
                WHERE a.account = i.account AND a.device = i.device AND a.fingerprint = i.fingerprint
                  AND a.day >= relay_present_day(
      """)
    appendInterpolation(append.seenDay)
    appendLiteral(
      """
      ) - 1)
              AND NOT EXISTS (
                SELECT FROM messages AS m
                WHERE m.account = i.account AND m.device = i.device AND m.fingerprint = i.fingerprint
                  AND m.day >= relay_present_day(
      """)
    appendInterpolation(append.seenDay)
    appendLiteral(") - 1)")
  }

  /// The day of arrival, one row. In a distributed store from a table of the coordinator, which therefore numbers the
  /// rows: the sequence is there alone. Else a statement for one shard would go to its server as a whole.
  mutating func appendInterpolation(todayOf append: PostgresAppend) {
    appendLiteral("(SELECT relay_arrival_day(")
    appendInterpolation(append.seenDay)
    appendLiteral(append.layout == .whole ? ") AS today)" : ") AS today FROM message_sequence)")
  }

  /// The other messages in the mailbox of `n`; NULL if nobody watches it. In a distributed store `othersStep` asks.
  mutating func appendInterpolation(othersOf append: PostgresAppend) {
    guard append.layout == .whole else { return appendLiteral("NULL::bigint[]") }
    appendLiteral("CASE WHEN (")
    appendInterpolation(append.watched)
    appendLiteral(")[width_bucket(n.account, ")
    appendInterpolation(append.watched)
    appendLiteral(
      """
      )] = n.account THEN ARRAY(
                SELECT m.sequence FROM messages AS m
                WHERE m.account = n.account AND m.device = n.device AND m.day >= relay_present_day(
      """)
    appendInterpolation(append.seenDay)
    appendLiteral(
      """
      ) - 1
                ORDER BY m.sequence LIMIT
      """)
    appendLiteral(" ")
    appendInterpolation(PostgresAppend.othersLimit)
    appendLiteral(
      """

              ) END
      """)
  }
}
