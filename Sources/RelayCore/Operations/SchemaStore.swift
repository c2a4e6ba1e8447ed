/// The schema of a store and the steps that bring it up to date.
package protocol SchemaStore: Sendable {
  /// Ascending by version; `applied` is nil for a step that has not run.
  func migrations() async throws(StoreError) -> [MigrationStatus]
  /// Runs what is pending, up to the step `newest` where it is not nil, one transaction a step, reporting each as it
  /// is done. Safe to run on several processes at once. A store that is empty afterwards is sealed from then on, where
  /// there is an encryption key (`ContactSealingStore`). - Throws: `.unavailable` when a lock or statement time-out
  /// strikes: nothing of that step was done.
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
  /// The newest step that the oldest build knows which can work after this one.
  package let usableFrom: Int
  package init(version: Int, name: String, applied: Timestamp?, usableFrom: Int) {
    self.version = version
    self.name = name
    self.applied = applied
    self.usableFrom = usableFrom
  }
}

/// Which builds can serve a store once all of its steps have run.
package struct SchemaReturn: Sendable, Equatable {
  /// The newest step that has run; 0 for a new store.
  package let present: Int
  /// A build must know this step.
  package let usableFrom: Int
  private let hasPending: Bool

  package init(_ steps: [MigrationStatus]) {
    hasPending = steps.contains { $0.applied == nil }
    present = steps.filter { $0.applied != nil }.map(\.version).max() ?? 0
    usableFrom = steps.map(\.usableFrom).max() ?? 0
  }

  /// Whether the build can be put back that brought the store to where it is.
  package var isPossible: Bool { present >= usableFrom }

  /// For the operator.
  package var words: String {
    guard present > 0 else { return "The store is new: there is nothing to go back to." }
    guard hasPending else { return "Going back: builds that know step \(usableFrom) can serve this store." }
    guard isPossible else {
      return """
        Going back is not possible behind these steps: a build must know step \(usableFrom) then, and the store is at step \
        \(present). Make a backup first (`relay backup`): it is the only way back.
        """
    }
    return """
      Going back is possible: builds that know step \(usableFrom) can serve the store behind these steps, and it is at step \
      \(present) now. They may go on serving meanwhile.
      """
  }
}

package enum SchemaCompatibility: Sendable, Equatable {
  case usable(version: Int)
  /// `relay migrate run` has to run first.
  case tooOld(version: Int, needed: Int)
  /// A newer relay changed the schema in a way that this one cannot follow.
  case tooNew(version: Int, newestKnown: Int)
  /// A store is being moved into this one: it is not to be served before that has ended.
  case movingIn
  /// The store was moved to another, which is to be served in its place.
  case moved
  /// The store is being distributed among servers: it is not to be served before that has ended.
  case distributing
}
