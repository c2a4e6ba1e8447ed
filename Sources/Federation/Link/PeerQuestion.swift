import NIOCore
import RelayCore

/// Asks a peer one thing, for a command that has no `PeerTransport`: the connection ends with the answer.
struct PeerQuestion: Sendable {
  private let credentials: FederationCredentials
  private let addresses: PeerAddresses
  private let limits: PeerLimits

  init(credentials: FederationCredentials, addresses: PeerAddresses, limits: PeerLimits) {
    self.credentials = credentials
    self.addresses = addresses
    self.limits = limits
  }

  /// - Throws: whatever `PeerFailure` can be made of.
  func ask(_ request: PeerRequest, _ peer: KnownPeer) async throws -> PeerAnswer {
    let client = try PeerClient(
      way: try await addresses.way(to: peer.endpoint), authorities: peer.authorities, credentials: credentials,
      limits: limits
    ) { peer.fault(of: $0) }
    defer { client.retire() }
    return try await client.send(request)
  }
}
