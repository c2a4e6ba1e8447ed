/// The directory for those who route by it: as this process has it in memory, or as the store has it. Implemented by
/// Directory, used by Federation.
package protocol HomeDirectory: Sendable {
  /// Whether it is loaded: before, it knows nobody.
  var isReady: Bool { get }
  /// The owner of `token`, if it is found; nil when it is unknown.
  func home(of token: ContactToken) async throws(StoreError) -> ContactHome?
}

/// The owner of a contact, as look-ups see it.
package enum ContactHome: Sendable, Equatable {
  case here
  case peer(RelayName)
}

/// Finds contacts that no copy of a listing is kept of, by asking the peers. Implemented by Federation, used by
/// Directory.
package protocol ContactFinder: Sendable {
  /// Whether there is any peer to be asked just now: where there is none, nobody need look for what is unknown.
  var hasPeers: Bool { get }
  /// - Returns: entries for those of `tokens` that a peer knows, in no order, at most one each; peers that do not
  ///   answer in time are passed over.
  func find(_ tokens: [ContactToken]) async -> [DirectoryEntry]
}

/// The directory as this process has it in memory, for those who change what it shows. Implemented by Directory, used
/// by Relay.
package protocol DirectoryMirror: Sendable {
  /// Returns when look-ups of this process show what was committed before the call; or after a second at most, and then
  /// they show it later. So a client finds here what it has just been told is done. Never throws.
  func catchUp() async
}
