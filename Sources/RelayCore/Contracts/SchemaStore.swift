/// The schema of a store and the steps that bring it up to date.
package protocol SchemaStore: Sendable {
  /// Ascending by version; `applied` is nil for a step that has not run.
  func migrations() async throws(StoreError) -> [MigrationStatus]
  /// Runs what is pending, up to the step `newest` where it is not nil, one transaction a step, reporting each as it is
  /// done. Safe to run on several processes at once. A store that is empty afterwards is sealed from then on, where there is an encryption key
  /// (`ContactSealingStore`). - Throws: `.unavailable` when a lock or statement time-out strikes: nothing of that step was
  /// done.
  func migrate(to newest: Int?, progress: @Sendable (MigrationStatus) -> Void) async throws(StoreError)
  /// Which schema versions this build can work on.
  func compatibility() async throws(StoreError) -> SchemaCompatibility
}

extension SchemaStore {
  /// Runs all that is pending.
  package func migrate(progress: @Sendable (MigrationStatus) -> Void) async throws(StoreError) {
    try await migrate(to: nil, progress: progress)
  }
}

package struct MigrationStatus: Sendable, Equatable {
  package let version: Int
  package let name: String
  package let applied: Timestamp?
  package init(version: Int, name: String, applied: Timestamp?) {
    self.version = version
    self.name = name
    self.applied = applied
  }
}

package enum SchemaCompatibility: Sendable, Equatable {
  case usable(version: Int)
  /// `relay migrate run` has to run first.
  case tooOld(version: Int, needed: Int)
  /// A newer relay changed the schema in a way that this one cannot follow.
  case tooNew(version: Int, newestKnown: Int)
}
