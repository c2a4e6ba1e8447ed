import RelayCore

/// The addresses that wait in this process for another device's word, each until it was not noted for
/// `Presence.lifetime`.
///
/// There are as many as there are waiting connections: their listener bounds them.
struct WaitingAddresses {
  private var expiry: [ProvisioningAddress: Timestamp] = [:]
  private var cleaned: Timestamp?
  private static let lifetime = LocalCoordination.lifetime

  mutating func note(_ address: ProvisioningAddress, at now: Timestamp) {
    expiry[address] = now.adding(Self.lifetime)
    forgetExpired(at: now)
  }

  mutating func forget(_ address: ProvisioningAddress) { expiry[address] = nil }

  func contains(_ address: ProvisioningAddress, at now: Timestamp) -> Bool {
    guard let expires = expiry[address] else { return false }
    return now < expires
  }

  /// Once in a lifetime: whoever leaves is forgotten at once anyway.
  private mutating func forgetExpired(at now: Timestamp) {
    let begun = cleaned ?? now
    cleaned = begun
    guard now > begun.adding(Self.lifetime) else { return }
    expiry = expiry.filter { now < $0.value }
    cleaned = now
  }
}
