import RelayCore

/// One step of a store's schema. A step that was ever released never changes. New steps only add, and take away once no
/// build that needs the former shape can still run.
package struct SchemaStep: Sendable {
  /// Ascending, without gaps, from 1.
  let version: Int
  let name: String
  /// The oldest build, by the newest step that it knows, that can still work after this step: its own version where
  /// the step takes something away, an earlier one where it only adds.
  let usableFrom: Int
  /// Each is one statement for PostgreSQL; for SQLite it may be several.
  let statements: [String]

  package init(version: Int, name: String, usableFrom: Int, statements: [String]) {
    self.version = version
    self.name = name
    self.usableFrom = usableFrom
    self.statements = statements
  }

  /// The oldest schema that this build can work on.
  static let needed = 1
}

/// A store's note of a step that has run.
struct AppliedStep: Sendable {
  let version: Int
  let name: String
  let at: Timestamp
  let usableFrom: Int

  var status: MigrationStatus {
    MigrationStatus(version: version, name: name, applied: at, usableFrom: usableFrom)
  }
}
