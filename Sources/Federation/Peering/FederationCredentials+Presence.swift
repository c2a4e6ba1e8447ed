package import RelayCore
import X509

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
