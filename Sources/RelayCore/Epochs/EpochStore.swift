/// How far this store has come in time, so that an older state of it can be told from the newest
/// (docs/decisions/2026-11-21-restored-stores.md).
package protocol EpochStore: Sendable {
  /// Raises the epoch to `floor` if it is below, else by 1.
  /// - Returns: the epoch before and after.
  func advanceEpoch(atLeast floor: Int64) async throws(StoreError) -> (before: Int64, after: Int64)
  /// Drops every one-time prekey, raises the epoch to at least `floor`, and begins a new generation of the listing:
  /// peers read it anew. In the same transaction it is noted by whose word, and how far the store was behind; a claim
  /// of one peer alone that was noted before is forgotten: it is answered.
  func setAsideOneTimePreKeys(epoch floor: Int64, by word: RestoreWord, behind: Duration) async throws(StoreError)
  /// The epoch as it is.
  func epoch() async throws(StoreError) -> Int64
  /// Notes that one peer alone claims that the store is an older state; nil forgets what was noted.
  func noteRestoreClaim(by peer: RelayName?, behind: Duration) async throws(StoreError)
  /// Notes that one-time keys are held back from now on, or are not any more.
  func noteHeldBack(_ isHeldBack: Bool) async throws(StoreError)
  /// The last note of each kind.
  func restoreNotes() async throws(StoreError) -> RestoreNotes
  /// Remembers a peer's epoch if it is its highest so far.
  /// - Returns: the highest one before, 0 for none; nil when there is no such peer.
  func rememberEpoch(_ epoch: Int64, of peer: RelayName) async throws(StoreError) -> Int64?
}

/// Witnesses that remember outside the store how far its epoch had come, so that a restored older state is recognised
/// (docs/decisions/2026-11-21-restored-stores.md). Implemented by Redis's coordination and by Federation's peers.
package protocol EpochWitness: Sendable {
  /// Has each of them remember `epoch` if it is the highest so far.
  /// - Returns: the testimonies of the witnesses that may remember, in no order, possibly none. The caller judges
  ///   which are plausible and whom to believe.
  func witness(epoch: Int64) async -> [EpochTestimony]
}
