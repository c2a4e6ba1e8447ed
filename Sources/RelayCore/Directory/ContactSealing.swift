/// How contact tokens lie in the store, and how they are sealed (docs/directory.md, "At rest").
package protocol ContactSealingStore: Sendable {
  /// As it is just now. Needs a usable schema.
  func contactSealing() async throws(StoreError) -> ContactSealing

  /// Seals a store that holds no token yet, unless other processes may be at work on it. Embedded stores do so for
  /// whoever keeps other processes off.
  /// - Returns: whether it was sealed by this call.
  func sealIfEmpty() async throws(StoreError) -> Bool

  /// Seals the tokens of a store that holds them as they are. Does nothing if they are sealed already. A run that was
  /// broken off in any way is resumed, and finished work stays. Until it has ended, no relay works on the store.
  ///
  /// Needs the store for itself. On embedded stores the caller keeps other processes off. Feeds to peers and clients
  /// go on undisturbed: no change shows in a listing or in the feed.
  /// - Parameter progress: called now and then.
  func sealContacts(progress: @Sendable (ContactSealingProgress) -> Void) async throws(ContactSealingFailure)
}

package enum ContactSealing: Sendable, Equatable {
  /// As they are: whoever has the store can compute their numbers.
  case plain
  /// Partly: `sealContacts` was begun and has not ended. No relay works on the store.
  case underWay
  /// Under a key that the store holds sealed under the encryption key.
  case sealed
  /// Sealed, and the key does not open: the encryption key is missing, or another.
  case locked
}

package struct ContactSealingProgress: Sendable, Equatable {
  /// Rows of those that were there in the beginning, sealed or found sealed.
  package let done: Int
  package let total: Int
  package init(done: Int, total: Int) {
    self.done = done
    self.total = total
  }
}

/// Why tokens were not sealed.
package enum ContactSealingFailure: Error, Sendable {
  /// A key beside what it locks would protect nothing.
  case noEncryptionKey
  /// As `ContactSealing.locked`.
  case locked
  /// So many connections of other clients of the database are there: any may be a relay. Nothing was changed.
  case inUse(connections: Int)
  /// Work that was finished before the failure stays.
  case store(StoreError)
}
