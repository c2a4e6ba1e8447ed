import RelayCore

extension HomeFinder {
  /// The peer that a request for `number` goes to: the one that the client named, or else the one that has the number.
  /// - Returns: nil for this relay.
  func relay(for number: AccountNumber, named relay: RelayName?) async throws(Problem) -> RelayName? {
    if let relay { return relay }
    return try await home(of: number)
  }

  /// The same, of a name as it came. - Throws: `.notFound` for what cannot be a relay's name.
  func relay(for number: AccountNumber, named text: String?) async throws(Problem) -> RelayName? {
    guard let text else { return try await home(of: number) }
    guard let relay = RelayName(text) else { throw Problem(.notFound) }
    return relay
  }
}
