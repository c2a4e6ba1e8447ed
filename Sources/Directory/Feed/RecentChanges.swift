package import RelayCore
import RelayWork
import Synchronization

/// When tokens changed last, for clients that ask what has changed since they asked before (`PUT
/// /v1/directory/changes`).
///
/// Bounded: of many changes the oldest are forgotten, and whoever asks for what lies before them is told everything.
/// The revisions are the store's, so that a place that one process gave out is good at every other.
package final class RecentChanges: Sendable {
  package static let tokensMax = 200_000

  private struct State {
    /// The tokens that changed lately, each with the revision of its last change, in two parts. When the younger part
    /// is full, the older one is forgotten.
    var revisions = TwoGenerations<ContactToken, UInt64>()
    /// The highest revision among the old ones.
    var oldMax: UInt64 = 0
    /// The highest revision of all.
    var newest: UInt64 = 0
    /// Changes behind it are all here. nil before anything is known.
    var floor: DirectoryPlace?
    /// Everything before it is in the table.
    var cursor: DirectoryPlace?
  }

  private let partMax: Int
  private let state = Mutex(State())

  /// - Parameter max: 2 or more.
  init(max: Int) { partMax = Swift.max(1, max / 2) }

  /// Everything before it is in the table: what a client is told to come back with. Read it first, then the changes,
  /// then the table: so nothing is missed, at most said twice. nil before the directory is loaded.
  package var cursor: DirectoryPlace? { state.withLock { $0.cursor } }

  /// Which of `tokens` changed behind `cursor`: in their order, repeats included.
  /// - Returns: nil when that is not known: too long ago, another store's, or ahead of this process.
  package func changed(_ tokens: [ContactToken], since cursor: DirectoryPlace) -> [ContactToken]? {
    state.withLock { state in
      guard let floor = state.floor, let present = state.cursor, cursor.generation == present.generation,
        floor <= cursor, cursor <= present
      else { return nil }
      guard cursor.revision <= state.newest else { return [] }
      return tokens.filter { token in
        guard let revision = state.revisions[token] else { return false }
        // A place may lie between changes of one revision: then those before it are said again.
        return revision >= cursor.revision
      }
    }
  }

  /// Begins anew: everything before `cursor` is in the table, and changes behind those given will all be noted.
  ///
  /// Shown all at once: a cursor without the changes before it would tell that nothing has changed.
  /// - Parameter changes: all that are behind `floor`.
  func begin(at floor: DirectoryPlace, cursor: DirectoryPlace, with changes: [DirectoryChange] = []) {
    var begun = State(floor: floor, cursor: cursor)
    for change in changes {
      switch change.subject {
      case .token(let token): note(token, change.revision, in: &begun)
      case .peer: Self.raiseFloor(behind: change.revision, &begun)
      }
    }
    state.withLock { [begun] in $0 = begun }
  }

  /// Notes changes whose outcome is in the table.
  func note(_ changes: some Sequence<(ContactToken, UInt64)>) {
    state.withLock { state in
      for (token, revision) in changes { note(token, revision, in: &state) }
    }
  }

  /// More has changed by `revision` than can be noted one by one: whoever asks for what lies before is told everything.
  func forget(upTo revision: UInt64) { state.withLock { Self.raiseFloor(behind: revision, &$0) } }

  /// Everything before `place` is in the table, and noted.
  func advance(to place: DirectoryPlace) { state.withLock { $0.cursor = place } }

  private func note(_ token: ContactToken, _ revision: UInt64, in state: inout State) {
    // A walk over a peer's contacts notes them by its own revision, behind later ones.
    state.revisions.insert(Swift.max(revision, state.revisions[token] ?? 0), for: token)
    state.newest = Swift.max(revision, state.newest)
    if state.revisions.young.count >= partMax { Self.forgetOldest(&state) }
  }

  private static func forgetOldest(_ state: inout State) {
    if !state.revisions.old.isEmpty { raiseFloor(behind: state.oldMax, &state) }
    state.oldMax = state.revisions.young.values.max() ?? 0
    state.revisions.turn(reservesRoom: true)
  }

  private static func raiseFloor(behind revision: UInt64, _ state: inout State) {
    guard let floor = state.floor, revision < .max else { return }
    let raised = DirectoryPlace(generation: floor.generation, revision: revision + 1)
    if floor < raised { state.floor = raised }
  }
}

extension DirectoryPlace {
  /// For places of one generation.
  static func < (a: Self, b: Self) -> Bool { (a.revision, a.position) < (b.revision, b.position) }
  static func <= (a: Self, b: Self) -> Bool { !(b < a) }
}
