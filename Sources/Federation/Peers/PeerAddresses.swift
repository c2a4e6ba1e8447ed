import RelayCore
package import RelayWork
import Synchronization

/// The address at which a peer is connected to. Made by `PeerAddresses` alone, or for this relay's own listener.
package struct PeerWay: Sendable, Hashable {
  let endpoint: PeerEndpoint
  /// The address that was looked up and judged. nil: the endpoint's host is one itself, or all are allowed, and whoever
  /// connects looks the host up.
  let address: String?

  fileprivate init(_ endpoint: PeerEndpoint, at address: String? = nil) {
    self.endpoint = endpoint
    self.address = address
  }

  /// To this relay's own listener, as its operator configured it.
  package static func own(_ endpoint: PeerEndpoint) -> PeerWay { PeerWay(endpoint) }

  /// The host to connect to.
  var host: String { address ?? endpoint.host }
}

/// Looks the hosts of peers' URLs up, judges each address, and says which one is connected to.
///
/// A peer chooses its URL, and answers for its name. So only addresses of the public internet are connected to, and it
/// is the very address that was judged, never what the name is by then (DNS rebinding). All are allowed where this
/// relay's own URL has an address that is not public, or its operator says so (docs/federation.md, "Where a peer's URL
/// may lead").
package final class PeerAddresses: Sendable {
  private struct Known {
    var addresses: [String]
    /// Which one is in use: the next one, once nobody answers there.
    var place = 0
    var looked: ContinuousClock.Instant
    /// Whether somebody looks it up anew.
    var isLookedUp = false

    var address: String { addresses[place] }
  }

  private let allowsAll: Bool
  private let resolver: HostResolver
  /// Says of an address whether it is public.
  private let judge: @Sendable (String) -> Bool
  private let life: Duration
  private let known = Mutex<[PeerEndpoint: Known]>([:])

  /// The time for looking one host up: as much as a connection attempt has.
  static let lookUpLimit = Duration.seconds(5)
  /// An operator's peers, and those whose URL has changed.
  private static let knownMax = 4096
  private static let addressesMax = 16

  /// - Parameters:
  ///   - own: `federation.url`; nil where there is none. A relay at an address that is not public has its peers there.
  ///   - allowsPrivate: `federation.allow-private`.
  ///   - life: how long the answer of a look-up holds.
  package convenience init(
    own: PeerEndpoint?, allowsPrivate: Bool, resolver: HostResolver = .system(), life: Duration = .seconds(60)
  ) {
    self.init(own: own, allowsPrivate: allowsPrivate, resolver: resolver, life: life) { PublicAddress.isPublic($0) }
  }

  init(
    own: PeerEndpoint?, allowsPrivate: Bool, resolver: HostResolver, life: Duration,
    judge: @escaping @Sendable (String) -> Bool
  ) {
    allowsAll = allowsPrivate || own.map { !Self.mayBePublic($0, judge) } ?? false
    self.resolver = resolver
    self.life = life
    self.judge = judge
  }

  /// Whether `endpoint` may be a peer's, as far as it can be told without a look-up.
  func isAcceptable(_ endpoint: PeerEndpoint) -> Bool {
    allowsAll || Self.mayBePublic(endpoint, judge)
  }

  /// A name may, but for the one that is this host's own everywhere.
  private static func mayBePublic(_ endpoint: PeerEndpoint, _ judge: (String) -> Bool) -> Bool {
    endpoint.isIPAddress || endpoint.host == "localhost" ? judge(endpoint.host) : true
  }

  /// The way that connections take now. Waits for a look-up only when nothing is known of the host yet.
  /// - Throws: `.privateAddress`, `.unreachable`.
  func way(to endpoint: PeerEndpoint) async throws(PeerFailure) -> PeerWay {
    guard isAcceptable(endpoint) else { throw .privateAddress }
    if allowsAll || endpoint.isIPAddress { return PeerWay(endpoint) }
    let (address, isToLookUp) = known.withLock { known -> (String?, Bool) in
      guard let entry = known[endpoint] else { return (nil, false) }
      let isToLookUp = !entry.isLookedUp && ContinuousClock.now - entry.looked >= life
      if isToLookUp { known[endpoint]?.isLookedUp = true }
      return (entry.address, isToLookUp)
    }
    guard let address else { return try await ways(to: endpoint)[0] }
    // An address that was judged is as safe as before: the caller does not wait for the name servers.
    if isToLookUp {
      Task {
        // The next connection shows the result.
        do throws(PeerFailure) { _ = try await ways(to: endpoint) } catch {}
        known.withLock { $0[endpoint]?.isLookedUp = false }
      }
    }
    return PeerWay(endpoint, at: address)
  }

  /// All ways that there are by a look-up that is made now, the one in use first; not empty.
  /// - Throws: `.privateAddress`, also when only one of the addresses is not public; `.unreachable`.
  func ways(to endpoint: PeerEndpoint) async throws(PeerFailure) -> [PeerWay] {
    guard isAcceptable(endpoint) else { throw .privateAddress }
    if allowsAll || endpoint.isIPAddress { return [PeerWay(endpoint)] }
    let addresses = try await lookUp(endpoint.host)
    guard addresses.allSatisfy(judge) else {
      known.withLock { $0[endpoint] = nil }
      throw .privateAddress
    }
    let place = remember(addresses, of: endpoint)
    return (addresses[place...] + addresses[..<place]).map { PeerWay(endpoint, at: $0) }
  }

  /// Notes that `way` does not answer. The next connection takes another address of the host, if it has one.
  func failed(_ way: PeerWay) {
    guard let address = way.address else { return }
    known.withLock { known in
      guard let entry = known[way.endpoint], entry.address == address else { return }
      known[way.endpoint]?.place = (entry.place + 1) % entry.addresses.count
      known[way.endpoint]?.looked = .now - life
    }
  }

  /// The addresses of `host`, whatever they are: not empty.
  func lookUp(_ host: String) async throws(PeerFailure) -> [String] {
    if ClientAddress(text: host) != nil { return [host] }
    guard let addresses = await resolver.addresses(host, Self.lookUpLimit) else {
      // That says nothing of this one.
      throw .busy
    }
    guard !addresses.isEmpty else {
      throw .unreachable(reason: "\(host) has no address, or name servers do not answer")
    }
    return Array(addresses.prefix(Self.addressesMax))
  }

  /// - Returns: the place of the one in use, which stays while the host has it.
  private func remember(_ addresses: [String], of endpoint: PeerEndpoint) -> Int {
    known.withLock { known in
      if known[endpoint] == nil, known.count >= Self.knownMax,
        let oldest = known.min(by: { $0.value.looked < $1.value.looked })
      {
        known[oldest.key] = nil
      }
      let place = known[endpoint].flatMap { addresses.firstIndex(of: $0.address) } ?? 0
      known[endpoint] = Known(addresses: addresses, place: place, looked: .now)
      return place
    }
  }
}
