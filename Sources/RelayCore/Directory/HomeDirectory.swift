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
