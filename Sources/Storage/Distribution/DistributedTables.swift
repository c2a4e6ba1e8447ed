// Tables of a distributed store, and what Citus is told of them.

/// The tables that a distributed store divides among servers (docs/scale.md, "A store over several servers").
///
/// Each row of theirs belongs to an account, and all rows of an account lie at one server. Every other table stays with
/// the coordinator. A distributed table has no trigger and no foreign key, and each of its unique indexes names the
/// account: Citus demands that.
enum DistributedTables {
  /// The column that tells where a row lies.
  static let column = "account"

  /// In the order in which they are distributed. `messages` is the last one: once it is, all are.
  static let names = ["one_time_prekeys", "last_resort_prekeys", "wakes", "wake_history", "acknowledged", "messages"]

  /// The statement that divides a table's rows among the servers. It copies them, and the table takes no writes
  /// meanwhile.
  static func division(of table: String, _ place: DistributionStep.Place) -> String {
    let option =
      switch place {
      case .shards(let count): "colocate_with => 'none', shard_count => \(count)"
      case .beside(let other): "colocate_with => '\(other)'"
      }
    return "SELECT create_distributed_table('\(table)', '\(column)', \(option))"
  }

  /// The statement that removes the rows which the coordinator keeps of a divided table.
  static func emptying(_ table: String) -> String {
    "SELECT truncate_local_data_after_distributing_table('\(table)')"
  }
}
