// Reads of the mailboxes by live connections: the oldest envelopes of many at once that they do not hold; and the
// word that all mailboxes are to be read.

package import RelayCore

extension PostgresStorage {
  package func waiting(_ reads: [MailboxRead]) async throws(StoreError) -> [[QueuedEnvelope]] {
    guard !reads.isEmpty else { return [] }
    let beginnings = reads.map { days.first(of: $0.mailbox) }
    let layout = await layout
    // Reads of mailboxes without a known recent day look into every partition. They are kept apart from the others.
    let batches = [false, true].flatMap { isWorthLearning in
      let indices = reads.indices.filter { beginnings[$0].isWorthLearning == isWorthLearning }
      return layout == .whole ? Self.batches(indices, of: reads) : indices.map { [$0] }
    }
    let unlearned = reads.indices.filter { beginnings[$0].isWorthLearning }
    // An envelope that is left out may be older than all that comes back.
    let hidden = layout.parts(unlearned.filter { !reads[$0].held.isEmpty }) { reads[$0].mailbox.account }
    var steps = batches.map { batch in
      let firstDay = batch.lazy.map { beginnings[$0].day }.min() ?? 0
      return switch layout {
      case .whole: Self.waitingStep(batch.map { reads[$0] }, from: firstDay)
      case .distributed: Self.mailboxStep(reads[batch[0]], from: firstDay)
      }
    }
    steps += hidden.map { part in Self.oldestDaysStep(part.map { reads[$0].mailbox }, layout: layout) }
    if !unlearned.isEmpty { steps.append(todayStep) }

    let results = try await read(steps)
    var found = Found(count: reads.count)
    for (batch, result) in zip(batches, results) { try found.add(result, batch, of: reads) }
    for (part, result) in zip(hidden, results.dropFirst(batches.count)) { try found.addDays(result, of: part) }
    if !unlearned.isEmpty, let today = results.last {
      var row = today.cursor(row: 0)
      let today = try row.date()
      for index in unlearned { days.learned(reads[index].mailbox, oldest: found.oldest[index], today: today) }
    }
    return found.lists
  }

  /// The reads of one statement each: a bound on what one statement is given and takes.
  private static func batches(_ indices: [Int], of reads: [MailboxRead]) -> [[Int]] {
    var batches: [[Int]] = []
    var held = 0
    for index in indices {
      held += reads[index].held.count
      if let last = batches.last, last.count < batchReadsMax, held <= batchHeldMax {
        batches[batches.count - 1].append(index)
      } else {
        batches.append([index])
        held = reads[index].held.count
      }
    }
    return batches
  }

  private static let batchReadsMax = 64
  private static let batchHeldMax = 4096

  /// Each read has its own stretch of one list of what is held, in rising order: a row is looked up there by halves,
  /// so that who holds much is read at little cost, and costs those who are read beside it nothing. The order by the
  /// sequence, with a limit, leads every plan to the index that begins with the mailbox and goes on with the sequence.
  private static func waitingStep(_ reads: [MailboxRead], from firstDay: PostgresMailboxDays.Day) -> PostgresStep {
    let ends = reads.reduce(into: []) { $0.append(($0.last ?? 0) + Int32($1.held.count)) }
    return PostgresStep(
      "waiting",
      """
      \(reserving: 200 + reads.reduce(0) { $0 + 48 + 12 * $1.held.count })
      WITH r AS MATERIALIZED (
          SELECT account, device, count, place,
            (\(each: reads.flatMap { $0.held.sorted() }))[ended - held + 1 : ended] AS held
          FROM unnest(
              \(each: reads.lazy.map(\.mailbox.account)), \(each: reads.lazy.map(\.mailbox.device)),
              \(each: reads.lazy.map { Int64($0.limit) }), \(each: reads.lazy.map { Int32($0.held.count) }),
              \(each: ends))
            WITH ORDINALITY AS r (account, device, count, held, ended, place)
        )
      SELECT r.place, m.*
      FROM r
      CROSS JOIN LATERAL (
        SELECT day, sequence, \(MessageColumns.self), fingerprint
        FROM messages
        WHERE account = r.account AND device = r.device AND day >= \(PostgresDate(firstDay))
          AND r.held[width_bucket(sequence, r.held)] IS DISTINCT FROM sequence
        ORDER BY sequence LIMIT r.count
      ) AS m
      """)
  }

  /// As `waitingStep`, for one mailbox: a distributed store has a plan for such a statement once and for all.
  private static func mailboxStep(_ read: MailboxRead, from firstDay: PostgresMailboxDays.Day) -> PostgresStep {
    let held = PostgresParameter(each: read.held.sorted())
    return PostgresStep(
      "waiting",
      """
      SELECT 1::bigint AS place, day, sequence, \(MessageColumns.self), fingerprint
      FROM messages
      WHERE account = \(read.mailbox.account) AND device = \(read.mailbox.device) AND day >= \(PostgresDate(firstDay))
        AND (\(held))[width_bucket(sequence, \(held))] IS DISTINCT FROM sequence
      ORDER BY sequence LIMIT \(Int64(read.limit))
      """)
  }

  private static func oldestDaysStep(_ mailboxes: [DeviceAddress], layout: PostgresLayout) -> PostgresStep {
    PostgresStep(
      "oldest_days",
      """
      SELECT r.place, m.day
      FROM unnest(\(each: mailboxes.lazy.map(\.account)), \(each: mailboxes.lazy.map(\.device)))
        WITH ORDINALITY AS r (account, device, place)
      CROSS JOIN LATERAL (
        SELECT day FROM messages
        WHERE account = r.account AND device = r.device\(routing: layout, to: mailboxes.first?.account)
        ORDER BY sequence LIMIT 1
      ) AS m
      """)
  }

  package func missedWakeUps() async throws(StoreError) -> Int64 { try await revision(of: "wake-ups") }

  package func noteMissedWakeUps() async throws(StoreError) {
    _ = try await write("note_missed_wake_ups", "UPDATE revisions SET value = value + 1 WHERE subject = 'wake-ups'")
  }
}

/// The results of the statements of one call, by the index of the read.
private struct Found {
  private(set) var lists: [[QueuedEnvelope]]
  /// The earliest day that was seen of each mailbox.
  private(set) var oldest: [PostgresMailboxDays.Day?]

  init(count: Int) {
    lists = Array(repeating: [], count: count)
    oldest = Array(repeating: nil, count: count)
  }

  mutating func add(_ result: PostgresResult, _ batch: [Int], of reads: [MailboxRead]) throws(StoreError) {
    for index in result.rows {
      var row = result.cursor(row: index)
      let read = try Self.read(at: &row, of: batch)
      note(try row.date(), of: read)
      lists[read].append(try QueuedEnvelope(row: &row, in: reads[read].mailbox))
    }
    // The rows come in order, though nothing in the statement's words promises it: then this costs next to nothing.
    for read in batch { lists[read].sort { $0.sequence < $1.sequence } }
  }

  mutating func addDays(_ result: PostgresResult, of batch: [Int]) throws(StoreError) {
    for index in result.rows {
      var row = result.cursor(row: index)
      let read = try Self.read(at: &row, of: batch)
      note(try row.date(), of: read)
    }
  }

  private mutating func note(_ day: PostgresMailboxDays.Day, of read: Int) {
    oldest[read] = min(oldest[read] ?? day, day)
  }

  /// The first column counts the reads of a statement from 1.
  private static func read(at row: inout PostgresRow, of batch: [Int]) throws(StoreError) -> Int {
    let place = Int(try row.bigint()) - 1
    return try row.required(batch.indices.contains(place) ? batch[place] : nil)
  }
}
