// The days that `messages` and `acknowledged` are divided by. All days are those of UTC on the database's clock, so
// that every process means the same one; what is past is judged by the last time that the store has seen (`SeenTime`).

import RelayCore
import RelayWork

/// Makes room for the days to come and drops the days past.
struct PostgresPartitions: Sendable {
  typealias Day = PostgresMailboxDays.Day

  let retention: Duration
  /// The present as the judge of clocks allows removal to take it.
  let past: Timestamp
  /// `PostgresStorage.seenDay`.
  let seenDay: Day?
  /// Whether the database's clock is believed.
  let isBelieved: Bool

  /// - Returns: whether a table is missing or can go. Needs no lock.
  func hasWork(over connection: PostgresConnection) async throws(StoreError) -> Bool {
    let found: PostgresResult
    let question = Self.question(seenDay)
    do throws(PostgresError) {
      found = try await connection.read(question)
    } catch {
      throw error.storeError
    }
    guard let state = try Self.State(found) else { return false }
    return !missing(in: state).isEmpty || !expired(in: state).isEmpty || !stray(in: state).isEmpty
  }

  /// To be called with the lock held.
  /// - Returns: how many partitions of messages were dropped: days, where they hold one each.
  func keep(over connection: PostgresConnection) async throws(StoreError) -> Int {
    guard let state = try await Self.state(seenDay, over: connection) else { return 0 }
    for partition in missing(in: state) { try await Self.create(partition, over: connection) }
    let expired = expired(in: state)
    for partition in expired { try await Self.drop(partition, over: connection) }
    for partition in stray(in: state) { try await Self.drop(partition, onlyIfEmpty: true, over: connection) }
    return expired.count { $0.parent == .messages }
  }

  /// Creates the partitions of today and the days ahead that are not there, whatever the retention. To be called with
  /// the lock held.
  static func createMissing(seenDay: Day? = nil, over connection: PostgresConnection) async throws(StoreError) {
    guard let state = try await state(seenDay, over: connection) else { return }
    for parent in Parent.allCases {
      let plan = PartitionPlan(retention: nil)
      for days in plan.missing(state.days(of: parent), today: state.today, past: state.today) {
        try await create(Partition(parent: parent, days: days), over: connection)
      }
    }
  }

  /// Creates partitions for `days` as far as they lack, several days wide where there would be too many. To be called
  /// with the lock held.
  static func cover(_ days: ClosedRange<Day>, of parent: Parent, over connection: PostgresConnection)
    async throws(StoreError)
  {
    guard let state = try await state(nil, over: connection) else { return }
    for days in PartitionPlan.covering(days, beside: state.days(of: parent)) {
      try await create(Partition(parent: parent, days: days), over: connection)
    }
  }

  // MARK: What there is

  enum Parent: String, CaseIterable, Sendable { case messages, acknowledged }

  struct Partition: Sendable, Equatable {
    let parent: Parent
    let days: Range<Day>
  }

  private struct State {
    /// The day that messages arrive on now.
    let today: Day
    /// Ascending.
    let partitions: [Partition]

    /// - Returns: nil before the schema is there.
    init?(_ result: PostgresResult) throws(StoreError) {
      guard result.rowCount > 0 else { return nil }
      var today: Day = 0
      var partitions: [Partition] = []
      for index in result.rows {
        var row = result.cursor(row: index)
        today = try row.date()
        let name = try row.text()
        guard let parent = Parent(rawValue: name), !row.isNull else { continue }
        let (first, end) = (try row.date(), try row.date())
        guard first < end else { throw .corrupted(reason: "a partition of \(name) holds no day") }
        partitions.append(Partition(parent: parent, days: first..<end))
      }
      self.today = today
      self.partitions = partitions
    }

    func days(of parent: Parent) -> [Range<Day>] { partitions.filter { $0.parent == parent }.map(\.days) }
  }

  private static func state(_ seenDay: Day?, over connection: PostgresConnection) async throws(StoreError) -> State? {
    let found: PostgresResult
    let question = question(seenDay)
    do throws(PostgresError) {
      found = try await connection.write(question)
    } catch {
      throw error.storeError
    }
    return try State(found)
  }

  /// Columns: the day of arrival, table, the first day of a partition, the day behind its last; the oldest first. The
  /// bounds are read back as they are printed, by one session.
  private static func question(_ seenDay: Day?) -> PostgresStep {
    PostgresStep(
      once: """
        SELECT relay_arrival_day(\(seenDay.map(PostgresDate.init))), parent.name, bounds.days[1]::date, bounds.days[2]::date
        FROM (VALUES ('messages'), ('acknowledged')) AS parent (name)
        LEFT JOIN pg_inherits ON inhparent = to_regclass(parent.name)
        LEFT JOIN pg_class AS c ON c.oid = inhrelid
        LEFT JOIN LATERAL (
          SELECT regexp_match(pg_get_expr(c.relpartbound, c.oid), 'FROM \\(''([^'']+)''\\) TO \\(''([^'']+)''\\)')
        ) AS bounds (days) ON true
        WHERE to_regclass(parent.name) IS NOT NULL
        ORDER BY parent.name, 3
        """)
  }

  // MARK: What is to be done

  private func missing(in state: State) -> [Partition] {
    Parent.allCases.flatMap { parent in
      PartitionPlan(retention: days(of: parent)).missing(state.days(of: parent), today: state.today, past: pastDay)
        .map { Partition(parent: parent, days: $0) }
    }
  }

  /// The partitions that no retry and no reader can want any more; of each table two days' worth, or the oldest
  /// partition.
  private func expired(in state: State) -> [Partition] {
    Parent.allCases.flatMap { parent in
      let firstKept = pastDay - days(of: parent)
      let old = state.partitions.filter { $0.parent == parent && $0.days.upperBound <= firstKept }
      return PartitionPlan.going(old) { $0.days }
    }
  }

  /// The partitions that a clock which was ahead left behind: nothing has arrived for them, unless they hold
  /// something.
  private func stray(in state: State) -> [Partition] {
    guard isBelieved else { return [] }
    return state.partitions.filter { $0.days.lowerBound > state.today + PartitionPlan.daysAhead }
  }

  /// `acknowledged` outlives yesterday never, `messages` the retention.
  private func days(of parent: Parent) -> Day {
    parent == .acknowledged ? 1 : Day(clamping: retention.components.seconds / 86_400)
  }

  private var pastDay: Day { Day(clamping: past.day - ClockJudge.daysTo2000) }

  // MARK: Doing it

  /// A partition is attached, not created in its place: that stops neither readers nor writers of the other days.
  private static func create(_ partition: Partition, over connection: PostgresConnection) async throws(StoreError) {
    let parent = partition.parent.rawValue
    try await connection.run(
      """
      DO $$
      DECLARE
        first date := date '2000-01-01' + \(partition.days.lowerBound);
        behind date := date '2000-01-01' + \(partition.days.upperBound);
        name text := '\(parent)' || to_char(first, '_YYYYMMDD');
      BEGIN
        EXECUTE format('CREATE TABLE %I (LIKE \(parent) INCLUDING DEFAULTS INCLUDING INDEXES INCLUDING STORAGE)', name);
        EXECUTE format('ALTER TABLE \(parent) ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', name,
          to_char(first, 'YYYY-MM-DD'), to_char(behind, 'YYYY-MM-DD'));
      END $$
      """)
  }

  /// Dropping a partition takes a lock on the whole table. While that lock waits for another session, a backup that
  /// reads the table for instance, all traffic of messages waits behind it. So each try waits for a moment only: at
  /// first for 10 ms, which is enough where commits are fast, and longer from try to try. Nor does the lock wait for a
  /// standby: a drop that a crash undoes is done again.
  /// - Throws: `.unavailable` when other sessions had the table at every try.
  private static func drop(
    _ partition: Partition, onlyIfEmpty: Bool = false, over connection: PostgresConnection
  ) async throws(StoreError) {
    for attempt in 0..<dropTriesMax {
      do throws(PostgresError) {
        _ = try await connection.transaction([
          // In a distributed store the servers of shards lock too. To others this is a word without meaning.
          PostgresStep(.once("SET LOCAL citus.propagate_set_commands = 'local'")),
          PostgresStep(.once("SET LOCAL lock_timeout = '\(min(dropWaitMillisMax, 10 + 2 * attempt))ms'")),
          PostgresStep(.once("SET LOCAL synchronous_commit = off")),
          PostgresStep(.once(dropping(partition, onlyIfEmpty: onlyIfEmpty))),
        ])
        return
      } catch {
        guard case .refused(.lockNotAvailable, _) = error else { throw error.storeError }
      }
      // Cut short when the process stops.
      guard await Pause.for(dropPause) else { break }
    }
    throw .unavailable(
      reason: "what is past retention was not dropped: another session, a backup perhaps, reads the messages")
  }

  /// The table is locked first: as whatever reads and writes it. Citus reads no row without a column.
  private static func dropping(_ partition: Partition, onlyIfEmpty: Bool) -> String {
    let parent = partition.parent.rawValue
    return """
      DO $$
      DECLARE
        name text := '\(parent)' || to_char(date '2000-01-01' + \(partition.days.lowerBound), '_YYYYMMDD');
        isUsed boolean := false;
      BEGIN
        LOCK TABLE ONLY \(parent) IN ACCESS EXCLUSIVE MODE;
        IF \(onlyIfEmpty) THEN EXECUTE format('SELECT EXISTS (SELECT 1 FROM %I)', name) INTO isUsed; END IF;
        IF NOT isUsed THEN EXECUTE format('DROP TABLE %I', name); END IF;
      END $$
      """
  }

  private static let dropWaitMillisMax = 50
  private static let dropTriesMax = 20
  /// Traffic waits a twentieth of the time at most.
  private static let dropPause = Duration.seconds(1)
}
