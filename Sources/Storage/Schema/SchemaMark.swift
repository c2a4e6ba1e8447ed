/// A mark in the list of a store's steps: the store is not to be served. No step will have these numbers, so that
/// former builds refuse the store too.
enum SchemaMark: Int, CaseIterable, Sendable {
  /// A store is being moved into this one.
  case moving = 1_000_001
  /// The store was moved to another.
  case moved = 1_000_002

  var name: String {
    switch self {
    case .moving: "a store is being moved into this one"
    case .moved: "the store was moved to another"
    }
  }
}
