import Crypto
import Metrics
package import RelayCore
import RelayMetrics

/// Decides which peer receives a request that names no relay (docs/federation.md, "Clients that name no relay").
///
/// Copied listings are in the directory: no peer is asked for them. Only a number that is in no copy, and has no
/// account here, is asked of the peers that want to be asked.
package struct ImplicitRoutes: HomeFinder {
  private let registry: PeerRegistry
  private let directory: any HomeDirectory
  private let asked: PeerDirectory
  private let ownMark: AttachmentMark
  private let isLocalAccount: @Sendable (AccountNumber) async throws(Problem) -> Bool
  private let routed = RelayMetric.contacts.implicitRoutes.counter(.routed)
  private let contested = RelayMetric.contacts.implicitRoutes.counter(.contested)
  private let withheld = RelayMetric.contacts.implicitRoutes.counter(.off)

  /// - Parameters:
  ///   - ownMark: of this relay's own attachments: it is never a peer's.
  ///   - isLocalAccount: whether a number is registered here; answers from memory as a rule.
  package init(
    registry: PeerRegistry, directory: any HomeDirectory, asked: PeerDirectory, ownMark: AttachmentMark,
    isLocalAccount: @escaping @Sendable (AccountNumber) async throws(Problem) -> Bool
  ) {
    self.registry = registry
    self.directory = directory
    self.asked = asked
    self.ownMark = ownMark
    self.isLocalAccount = isLocalAccount
  }

  package func home(of number: AccountNumber) async throws(Problem) -> RelayName? {
    guard registry.current.routesImplicitly else { return nil }
    let token = ContactToken(of: number)
    switch try await storing({ () async throws(StoreError) in try await directory.home(of: token) }) {
    case .here: return nil
    case .peer(let name): return route(to: name)
    case nil: break
    }
    guard !directory.isReady || asked.hasPeers, try await !isLocalAccount(number) else { return nil }
    // A number that has not been looked for must not be reported as missing.
    guard directory.isReady else { throw Problem(.unavailable, retryAfter: .seconds(1)) }
    switch try await asked.home(of: token) {
    case .unknown: return nil
    case .contested:
      contested.increment()
      return nil
    case .peer(let name): return route(to: name)
    }
  }

  package func home(of attachment: AttachmentID) -> RelayName? {
    guard let mark = attachment.mark, mark != ownMark, let name = registry.current.byMark[mark] else { return nil }
    return route(to: name)
  }

  /// - Returns: nil where the operator does not want it.
  private func route(to name: RelayName) -> RelayName? {
    guard let peer = registry.current.byName[name], peer.isActive else { return nil }
    guard peer.peer.policy.routesImplicitly else {
      withheld.increment()
      return nil
    }
    routed.increment()
    return name
  }
}

extension ContactToken {
  /// Reference 2.1; a SHA-1 digest has 20 bytes, so its first 10 always make a token.
  init(of number: AccountNumber) {
    self.init(firstBytesOf: Array(Insecure.SHA1.hash(data: Array(number.e164.utf8))))
  }
}
