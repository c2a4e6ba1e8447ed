/// Those who remember outside the store how far the store's epoch had come, so that a restored older state is recognised
/// (docs/decisions/2026-11-21-restored-stores.md). Implemented by Redis's coordination and by Federation's peers.
package protocol EpochWitness: Sendable {
  /// Has each of them remember `epoch` if it is the highest so far.
  /// - Returns: what each says that might remember, in no order, possibly none. What is plausible, and whom to believe, is
  ///   the caller's to judge.
  func witness(epoch: Int64) async -> [EpochTestimony]
}
