import NIOSSL
import RelayCore
import RelayHTTP
import RelayWork
import Synchronization

/// The push services in use. For each: the connections, to an address that was looked up and checked before, and our
/// token for it.
///
/// The chooser of an endpoint may also answer for its name. So a connection goes to the very address that was
/// checked, never to another address that the name has by then (DNS rebinding). A name is looked up again now and
/// then. Meanwhile its addresses serve on, and for a day while there is no answer (RFC 8767 names one to three days): a
/// resolver that is full of names that never answer stops no service that this process knows.
final class WebPushServices: Sendable {
  struct Service: Sendable {
    let client: PushClient
    /// nil where the endpoint names it itself.
    let address: String?
    /// All that the name had at the last look-up, each of them checked; none where there is no name.
    var addresses: [String]
    let token: SharedToken
    /// When the address was last among those of the name.
    var checked: ContinuousClock.Instant
    /// From then on the name is looked up again.
    var recheck: ContinuousClock.Instant
    var used: ContinuousClock.Instant
    /// The address does not answer.
    var isFailed = false
  }
  /// Why there is no connection to be used.
  struct Refusal: Error, Equatable {
    let outcome: PushOutcome
  }

  /// The least recently used ones are given up; their requests end first.
  private static let servicesMax = 256
  /// How soon a name that could not be looked up is tried again, and how long that may take. As RFC 8767 (5).
  private static let lookUpPause = Duration.seconds(30)
  private static let lookUpLimit = Duration.milliseconds(1800)
  private let allowsPrivate: Bool
  private let connectionsMax: Int
  private let trust: [NIOSSLCertificate]
  private let resolver: HostResolver
  /// How long a looked-up address holds.
  private let addressLife: Duration
  /// How long a checked address is used while its name cannot be looked up.
  private let addressKept: Duration
  private let makeToken: @Sendable (_ origin: String) -> SharedToken
  private let services = Mutex<[String: Service]>([:])

  init(
    allowsPrivate: Bool, connectionsMax: Int, trust: [NIOSSLCertificate], resolver: HostResolver,
    addressLife: Duration = .seconds(60), addressKept: Duration = .seconds(86400),
    makeToken: @escaping @Sendable (_ origin: String) -> SharedToken
  ) {
    self.allowsPrivate = allowsPrivate
    self.connectionsMax = connectionsMax
    self.trust = trust
    self.resolver = resolver
    self.addressLife = addressLife
    self.addressKept = addressKept
    self.makeToken = makeToken
  }

  /// - Throws: when requests must not go there, or its name cannot be looked up.
  func service(
    for endpoint: WebPushEndpoint, until deadline: ContinuousClock.Instant
  ) async throws(Refusal) -> Service {
    guard endpoint.isSecure || allowsPrivate else { throw Refusal(outcome: .refused(.notSecure)) }
    let now = ContinuousClock.now
    let known = services.withLock { services in
      services[endpoint.origin]?.used = now
      let known = services[endpoint.origin]
      // One request looks the name up. The others use what is there, if it answers.
      if let known, known.recheck <= now, !known.isFailed, now - known.checked < addressKept {
        services[endpoint.origin]?.recheck = now + Self.lookUpPause
      }
      return known
    }
    if let known, now < known.recheck { return known }
    if ClientAddress(text: endpoint.host) != nil {
      guard isAllowed(endpoint.host) else { throw Refusal(outcome: .refused(.privateAddress)) }
      return keep(known, endpoint, addresses: [], at: nil)
    }
    let usable = known.flatMap { now - $0.checked < addressKept ? $0 : nil }
    // With an address at hand some time must be left to use it.
    let limit = usable == nil ? deadline - now : min((deadline - now) / 2, Self.lookUpLimit)
    let addresses = await resolver.addresses(endpoint.host, limit)
    guard let addresses, !addresses.isEmpty else {
      if let usable { return keepUnresolved(usable, endpoint) }
      throw Refusal(outcome: .temporary(addresses == nil ? .resolverBusy : .unresolved))
    }
    // One is enough to make the name suspect.
    guard addresses.allSatisfy(isAllowed) else {
      forget(endpoint.origin)
      throw Refusal(outcome: .refused(.privateAddress))
    }
    return keep(known, endpoint, addresses: addresses, at: next(known, among: addresses))
  }

  /// The address in use, while it answers; else the one behind it.
  private func next(_ known: Service?, among addresses: [String]) -> String? {
    guard let known, let place = known.address.flatMap({ addresses.firstIndex(of: $0) }) else { return addresses.first }
    return known.isFailed ? addresses[(place + 1) % addresses.count] : known.address
  }

  /// `service` cannot be connected to: the next request looks its name up again.
  func failed(_ service: Service, for endpoint: WebPushEndpoint) {
    services.withLock { services in
      guard services[endpoint.origin]?.client === service.client else { return }
      services[endpoint.origin]?.isFailed = true
      services[endpoint.origin]?.recheck = .now
    }
  }

  private func isAllowed(_ address: String) -> Bool { allowsPrivate || PublicAddress.isPublic(address) }

  private func forget(_ origin: String) {
    services.withLock { $0[origin] = nil }
  }

  /// Its name has no answer now: it serves by what is known of it for a while.
  private func keepUnresolved(_ known: Service, _ endpoint: WebPushEndpoint) -> Service {
    let present = services.withLock { $0[endpoint.origin] }
    // Another request may have had an answer.
    guard let present, present.client === known.client else { return present ?? known }
    return keep(
      known, endpoint, addresses: known.addresses, at: next(known, among: known.addresses), checked: known.checked,
      life: Self.lookUpPause)
  }

  /// - Parameters:
  ///   - checked: when the addresses were; nil: now.
  ///   - life: how long they hold; nil for `addressLife`.
  private func keep(
    _ known: Service?, _ endpoint: WebPushEndpoint, addresses: [String], at address: String?,
    checked: ContinuousClock.Instant? = nil, life: Duration? = nil
  ) -> Service {
    let now = ContinuousClock.now
    let (checked, recheck) = (checked ?? now, now + (life ?? addressLife))
    return services.withLock { services in
      // Another request may have made one meanwhile, for the same address: it goes before the one known until then.
      if var kept = [services[endpoint.origin], known].compactMap(\.self).first(where: { $0.address == address }) {
        (kept.checked, kept.recheck, kept.used, kept.isFailed) = (checked, recheck, now, false)
        kept.addresses = addresses
        Self.put(kept, at: endpoint.origin, in: &services)
        return kept
      }
      var client = PushClient.Settings()
      client.connectionsMax = connectionsMax
      client.trust = trust
      if let address { client.addresses = [endpoint.host: address] }
      let made = Service(
        client: PushClient(client), address: address, addresses: addresses,
        token: services[endpoint.origin]?.token ?? makeToken(endpoint.origin),
        checked: checked, recheck: recheck, used: now)
      Self.put(made, at: endpoint.origin, in: &services)
      return made
    }
  }

  private static func put(_ service: Service, at origin: String, in services: inout [String: Service]) {
    while services[origin] == nil, services.count >= servicesMax,
      let oldest = services.min(by: { $0.value.used < $1.value.used })
    {
      services[oldest.key] = nil
    }
    services[origin] = service
  }
}

extension PushReason {
  /// The endpoint lies at an address that is not the public internet's.
  package static let privateAddress = PushReason(.message, "private-address")
  /// The endpoint is no `https` URL.
  package static let notSecure = PushReason(.message, "endpoint-not-secure")
  /// The endpoint's host has no address, or name servers did not answer.
  package static let unresolved = PushReason(.transport, "unresolved")
  /// As many names as may be are being looked up: it says nothing of this one.
  package static let resolverBusy = PushReason(.local, "resolver-busy")
}
