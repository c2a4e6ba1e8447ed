import RelayCore

extension MoveTarget {
  /// Makes the days that messages are of, as far as they lack.
  func makeDays(_ messages: ClosedRange<Int64>?, _ acknowledged: ClosedRange<Int64>?) async throws(StoreError) {
    let wanted = [(PostgresPartitions.Parent.messages, messages), (.acknowledged, acknowledged)]
    try await store.maintenance.run { connection throws(StoreError) in
      for case (let parent, let days?) in wanted {
        let first = PostgresPartitions.Day(clamping: days.lowerBound - ClockJudge.daysTo2000)
        let last = PostgresPartitions.Day(clamping: days.upperBound - ClockJudge.daysTo2000)
        try await PostgresPartitions.cover(first...max(first, last), of: parent, over: connection)
      }
    }
  }

  /// Makes what is not moved row by row, and takes the mark away: the database may be served.
  /// - Parameters:
  ///   - lastNumbers: of the source's tables whose numbers never come again.
  ///   - isSealed: whether contact tokens are.
  ///   - generation: of the source's listing. Peers read the listing anew, and relays the directory.
  func end(lastNumbers: [String: Int64], isSealed: Bool, generation: Int64) async throws(StoreError) {
    var steps = [
      PostgresStep(once: "DELETE FROM contact_counts"),
      PostgresStep(
        once: """
          INSERT INTO contact_counts (peer, contacts, unlisted)
          SELECT p.name, count(c.peer), count(c.unlisted) FROM peers AS p LEFT JOIN peer_contacts AS c ON c.peer = p.name
          GROUP BY p.name
          """),
      PostgresStep(once: "DELETE FROM attachment_charges"),
      PostgresStep(
        once: """
          INSERT INTO attachment_charges (account, total)
          SELECT account, sum(charge)::bigint FROM attachments GROUP BY account
          """),
      PostgresStep(
        once: """
          UPDATE revisions SET value = greatest(\(generation) + 1, floor(extract(epoch FROM now()) * 1000)::bigint)
          WHERE subject = 'listing-generation'
          """),
    ]
    for (table, sequence) in Self.sequences {
      guard let last = lastNumbers[table], last > 0 else { continue }
      steps.append(PostgresStep(once: "SELECT setval('\(fragment: sequence)', \(last))"))
    }
    if isSealed { steps += PostgresStorage.tokenChecks }
    let mark = Int32(SchemaMark.moving.rawValue)
    steps.append(PostgresStep(once: "DELETE FROM relay_schema WHERE version = \(mark)"))
    let ending = steps
    try await store.maintenance.run { connection throws(StoreError) in
      // Plans of empty tables would be made for full ones.
      try await connection.run("ANALYZE")
      try await connection.perform(ending)
    }
  }

  /// The sequences that give the numbers of the embedded store's tables. These numbers never come again.
  private static let sequences: [String: StaticString] = [
    "messages": "message_sequence", "outbox": "outbox_sequence", "wake_history": "wake_history_entry_seq",
    "notification_jobs": "notification_jobs_id_seq", "attachment_marks": "attachment_marks_place_seq",
    "audit_log": "audit_log_id_seq",
  ]
}
