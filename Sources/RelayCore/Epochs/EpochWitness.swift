/// Witnesses that remember outside the store how far its epoch had come, so that a restored older state is recognised
/// (docs/decisions/2026-11-21-restored-stores.md). Implemented by Redis's coordination and by Federation's peers.
package protocol EpochWitness: Sendable {
  /// Has each of them remember `epoch` if it is the highest so far.
  /// - Returns: the testimonies of the witnesses that may remember, in no order, possibly none. The caller judges
  ///   which are plausible and whom to believe.
  func witness(epoch: Int64) async -> [EpochTestimony]
}
