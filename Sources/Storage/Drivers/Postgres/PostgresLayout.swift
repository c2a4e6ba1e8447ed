// Whether the tables that grow with use lie in one database, or in shards at several servers.

import RelayCore
import Synchronization

/// How the rows of messages, prekeys and wake-ups lie (docs/architecture.md, "A distributed store").
///
/// Statements have one text for both as far as possible. In a distributed store each of them names the accounts that
/// it is about, for each distributed table: so the coordinator asks the servers of these accounts alone.
enum PostgresLayout: Sendable {
  /// In the database itself, as all others.
  case whole
  /// In shards by account (Citus). All other tables lie at the coordinator, which relays connect to.
  case distributed

  /// SQL that is true for a distributed store. Citus gives this trigger to each table that it distributes. A server
  /// without Citus has none, and no table of Citus that could be asked.
  static let question = """
    EXISTS (
      SELECT FROM pg_catalog.pg_trigger AS t JOIN pg_catalog.pg_proc AS p ON p.oid = t.tgfoid
      WHERE t.tgrelid = pg_catalog.to_regclass('messages') AND p.proname = 'citus_truncate_trigger')
    """

  /// SQL that is true where the server has loaded Citus. Without it the server takes the tables of a distributed store
  /// for empty ones of its own.
  static let isLoaded = "pg_catalog.current_setting('citus.shard_count', true) IS NOT NULL"

  /// - Parameter answer: a row that begins with the answers to `question` and `isLoaded`.
  /// - Returns: nil for a distributed store whose server has not loaded Citus: it must not be served.
  init?(_ answer: PostgresResult) {
    // Nothing but booleans comes.
    let told = try? answer.first { (row) throws(StoreError) in
      (isDistributed: try row.boolean(), isLoaded: try row.boolean())
    }
    guard let told, told.isDistributed else {
      self = .whole
      return
    }
    guard told.isLoaded else { return nil }
    self = .distributed
  }

  /// The parts of `items` that one statement each may have which is routed to one account: all of them, in a store
  /// that is whole.
  func parts<Item>(_ items: [Item], of account: (Item) -> AccountNumber) -> [[Item]] {
    guard self == .distributed else { return items.isEmpty ? [] : [items] }
    var places: [AccountNumber: Int] = [:]
    var parts: [[Item]] = []
    for item in items {
      if let place = places[account(item)] {
        parts[place].append(item)
      } else {
        places[account(item)] = parts.count
        parts.append([item])
      }
    }
    return parts
  }
}

/// The layout that a server told last. It does not change while relays serve: a store is distributed without them.
final class KnownLayout: Sendable {
  private let known = Mutex<PostgresLayout?>(nil)

  func learn(_ layout: PostgresLayout) { known.withLock { $0 = layout } }

  /// Asks `connection` for a sign of life if no server has told yet: it learns the layout with its first answer. Then
  /// a server that does not answer counts as one whole database, and the statement itself will fail.
  func value(over connection: PostgresConnection) async -> PostgresLayout {
    if let known = known.withLock({ $0 }) { return known }
    _ = try? await connection.read("layout", "SELECT 1")  // The next statement says what is wrong.
    return known.withLock { $0 } ?? .whole
  }
}

extension PostgresQuery.Interpolation {
  /// Leads a statement to the accounts of an array: ` AND t.account = ANY ($n)`. Nothing in a store that is whole.
  mutating func appendInterpolation(
    routing layout: PostgresLayout, _ table: StaticString, to accounts: PostgresParameter
  ) {
    guard layout == .distributed else { return }
    appendLiteral(" AND ")
    appendLiteral(table)
    appendLiteral(".account = ANY (")
    appendInterpolation(accounts)
    appendLiteral(")")
  }

  /// Leads a statement to the servers of one account: ` AND account = $n`. Nothing in a store that is whole.
  mutating func appendInterpolation(routing layout: PostgresLayout, to account: AccountNumber?) {
    guard layout == .distributed else { return }
    appendLiteral(" AND account = ")
    appendInterpolation(account)
  }

  /// `relay_present_day`. Servers of shards need not have the function.
  mutating func appendInterpolation(presentDay layout: PostgresLayout, _ seenDay: PostgresParameter) {
    guard layout == .distributed else {
      appendLiteral("relay_present_day(")
      appendInterpolation(seenDay)
      appendLiteral(")")
      return
    }
    appendLiteral("CASE WHEN (now() AT TIME ZONE 'UTC')::date > ")
    appendInterpolation(seenDay)
    appendLiteral(" + 1 THEN ")
    appendInterpolation(seenDay)
    appendLiteral(" ELSE greatest((now() AT TIME ZONE 'UTC')::date, ")
    appendInterpolation(seenDay)
    appendLiteral(") END")
  }
}
