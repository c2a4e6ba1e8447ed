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
}
