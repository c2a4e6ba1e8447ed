/// The directory as this process has it in memory, for those who route by it. Implemented by Directory, used by Federation.
package protocol HomeDirectory: Sendable {
  /// Whether it is loaded: before, it knows nobody.
  var isReady: Bool { get }
  /// Who has `token`, of those who are found; nil when it is unknown.
  func home(of token: ContactToken) -> ContactHome?
}

/// Whose a contact is, as look-ups see it.
package enum ContactHome: Sendable, Equatable {
  case here
  case peer(RelayName)
}
