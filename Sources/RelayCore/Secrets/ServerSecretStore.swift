/// Secrets that the relay draws for itself and all its processes share, and the sealing of those that it keeps for
/// others.
package protocol ServerSecretStore: Sendable {
  /// - Returns: the secret under `name`, or nil.
  func serverSecret(_ name: String) async throws(StoreError) -> [UInt8]?
  /// - Returns: the secret under `name`; `candidate`, stored now, when there was none.
  func serverSecret(_ name: String, orStore candidate: [UInt8]) async throws(StoreError) -> [UInt8]
  /// Puts `replacement` in the place of the secret under `name`.
  /// - Returns: false, with nothing stored, unless that was `former`.
  func replaceServerSecret(_ name: String, _ former: [UInt8], with replacement: [UInt8]) async throws(StoreError)
    -> Bool

  /// A key that the relay draws for itself: it lies sealed where there is an encryption key. One that lies as it is, is
  /// sealed by this call then.
  /// - Returns: the key under `name`; what `draw` makes, stored now, when there was none.
  /// - Throws: `.corrupted` when it does not open under the encryption key, nor under the former one.
  func serverKey(_ name: ServerKeyName, orStore draw: @Sendable () -> SecretBytes) async throws(StoreError)
    -> SecretBytes

  /// Seals secrets anew: takes them from the former encryption key to the current one. One call takes the signaling
  /// keys of `limit` devices (1 or more) that follow `last` in a stable order, or of the first ones. Secrets that do
  /// not open stay as they are. The call for the first devices also takes the key of contact tokens and the keys of
  /// `ServerKeyName`, which are not counted.
  func resealSecrets(after last: DeviceAddress?, limit: Int) async throws(StoreError) -> ResealedSecrets
}

/// The keys that `ServerSecretStore.serverKey` keeps, by the names of their rows.
package enum ServerKeyName: String, Sendable, CaseIterable {
  /// The key of oblivious look-ups (docs/directory.md, "Oblivious look-up").
  case oblivious = "directory-oblivious"
  /// The key of the tags of messages that were handed over to peers (`HandOverTag`).
  case handOvers = "federation-hand-overs"
  /// The key of the URLs by which attachments in a folder are fetched.
  case attachmentURLs = "attachment-urls"
  /// The key of pending codes and banned numbers: the store keeps a keyed hash of each.
  case pendingCodes = "pending-codes"
  /// The key of the handles by which operators name accounts (`AccountHandle`).
  case accountHandles = "account-handles"
  /// The key by which processes know each other that ask for parts of the directory, and hold them.
  case directoryParts = "directory-parts"

  /// How long such a key is.
  package var byteCount: Int { 32 }
}

/// The outcome of one step through the devices.
package struct ResealedSecrets: Sendable, Equatable {
  /// How many signaling keys were sealed anew.
  package let count: Int
  /// The last device that was looked at; nil past the end.
  package let last: DeviceAddress?
  package init(count: Int, last: DeviceAddress?) {
    self.count = count
    self.last = last
  }
}
