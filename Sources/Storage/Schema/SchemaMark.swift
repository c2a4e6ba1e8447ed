/// What the list of a store's steps says besides: the store is not to be served. Numbers that no step will have, so that
/// former builds refuse it too.
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
