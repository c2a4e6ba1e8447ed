// The outputs of the oblivious pseudorandom function for all registered contacts, kept by the store (docs/directory.md,
// "Oblivious look-up").

/// How far the outputs follow the directory.
package struct ObliviousProgress: Sendable, Equatable {
  /// Under which the outputs are made.
  package let key: ObliviousKeyID
  /// Every change before it is in the outputs, except for contacts of ranges that are still to be done.
  package let place: DirectoryPlace
  /// The number of ranges, out of the 256 of `DirectoryRange.all`, that have an output for each contact.
  package let rangesDone: Int
  /// Whether outputs of contacts that were no longer registered when the ranges were done are gone.
  package let isSwept: Bool
  /// When the last reading of the feed began that reached its end, by the clock of the process that read it.
  package let followed: Timestamp
  /// Rises with every writing: who has another number has been overtaken.
  package let step: Int64

  package init(
    key: ObliviousKeyID, place: DirectoryPlace, rangesDone: Int, isSwept: Bool, followed: Timestamp,
    step: Int64
  ) {
    self.key = key
    self.place = place
    self.rangesDone = rangesDone
    self.isSwept = isSwept
    self.followed = followed
    self.step = step
  }

  /// Whether every contact of the directory has its output, but for what changed behind `place`.
  package var isComplete: Bool { rangesDone == DirectoryRange.all.count }
}

/// The changes that one writing makes.
package struct ObliviousChange: Sendable, Equatable {
  /// At most one of a token; one that is there already takes this output and key.
  package let added: [ContactOutput]
  /// Other tokens than those of `added`.
  package let removed: [ContactToken]
  package init(added: [ContactOutput] = [], removed: [ContactToken] = []) {
    self.added = added
    self.removed = removed
  }
}

/// The outputs of registered contacts, ours and copied peers', of which one process of an operator at a time takes
/// care.
package protocol ObliviousStore: Sendable {
  /// - Returns: nil before the first writing.
  func obliviousProgress() async throws(StoreError) -> ObliviousProgress?

  /// Makes `change` under `progress.key`, and remembers `progress`: all or nothing.
  /// - Parameter step: of the progress that the caller knows; nil where there was none.
  /// - Returns: false, with nothing stored, when another step stands there: somebody else has written since.
  func writeOutputs(_ change: ObliviousChange, _ progress: ObliviousProgress, over step: Int64?)
    async throws(StoreError) -> Bool

  /// The tokens among `tokens` that have no output under `key`, in no order, each once.
  func tokensWithoutOutput(among tokens: [ContactToken], under key: ObliviousKeyID) async throws(StoreError)
    -> [ContactToken]

  /// Tokens that have an output under whatever key, behind `token` in a stable order, at most `limit` (1 or more); the
  /// last of them leads to the next.
  func tokensWithOutput(after token: ContactToken?, limit: Int) async throws(StoreError) -> [ContactToken]

  /// Outputs within `range` with their contacts, ascending by output, at most `limit` (1 or more).
  /// - Returns: nil unless the outputs are those of `key`, complete, and of the directory as it was at `followed` or
  ///   later: of its present generation, too.
  func outputs(
    under key: ObliviousKeyID, in range: ClosedRange<ObliviousOutput>, limit: Int, followedSince followed: Timestamp
  ) async throws(StoreError) -> [ContactOutput]?
}
