package import RelayCore
import X509

/// When the leaves end that active peers present at this moment, for `relay peer list`. Nothing of ours is shown to
/// them.
package struct PresentedLeaves: Sendable {
  private let addresses: PeerAddresses
  private let timeout: Duration

  /// - Parameter timeout: for each address of a peer.
  package init(addresses: PeerAddresses, timeout: Duration = PeerLimits().connectTimeout) {
    self.addresses = addresses
    self.timeout = timeout
  }

  /// Looks at `peers` side by side, some at a time.
  /// - Returns: nothing of those that are suspended, cannot be reached, or present what is none of theirs: `relay peer
  ///   test` says why.
  package func ends(of peers: [Peer]) async -> [RelayName: Timestamp] {
    await withTaskGroup(of: (RelayName, Timestamp?).self) { group in
      var ends: [RelayName: Timestamp] = [:]
      for (index, peer) in peers.compactMap({ KnownPeer($0) }).filter(\.isActive).enumerated() {
        if index >= Self.atOnceMax, let (name, end) = await group.next() { ends[name] = end }
        group.addTask { (peer.name, await end(of: peer)) }
      }
      for await (name, end) in group { ends[name] = end }
      return ends
    }
  }

  private func end(of peer: KnownPeer) async -> Timestamp? {
    do throws(PeerFailure) {
      let (chain, _) = try await CertificateProbe.presentedChain(
        byOneOf: try await addresses.ways(to: peer.endpoint), timeout: timeout)
      guard let leaf = chain.first, peer.authority(of: leaf) != nil, peer.fault(of: leaf) == nil else { return nil }
      return leaf.validUntil
    } catch {
      // Whether the peer is away stands beside it.
      return nil
    }
  }

  private static let atOnceMax = 32
}

// The checks of our own certificates for `relay doctor`.
extension FederationCredentials {
  /// Why peers would refuse our leaf, were it shown at `endpoint`.
  /// - Returns: nil when they would not.
  package func faultOfLeaf(at endpoint: PeerEndpoint, now: Timestamp) async -> String? {
    do throws(ChainFault) {
      try await ChainCheck(role: .server(endpoint), now: now).verify(leaf, by: authority)
      return nil
    } catch {
      return error.description
    }
  }

  /// Whether who listens at `endpoint` shows a certificate of our CA and our name.
  /// - Throws: when there is no TLS to be had.
  package func arePresented(at endpoint: PeerEndpoint) async throws -> Bool {
    let chain = try await CertificateProbe.presentedChain(by: .own(endpoint), timeout: .seconds(3))
    return chain[0].isIssued(by: authority) && chain[0].relayName == name
  }
}
