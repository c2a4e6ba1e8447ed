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
/// then. Meanwhile its address serves on, and for a day while there is no answer. Filling the resolver with names
/// that never answer stops no service that is known (RFC 8767 names one to three days).
final class WebPushServices: Sendable {
  struct Service: Sendable {
    let client: PushClient
    /// nil where the endpoint names it itself.
    let address: String?
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
      return keep(known, endpoint, address: nil)
    }
    // With an address at hand some time must be left to use it.
    let limit = known == nil ? deadline - now : min((deadline - now) / 2, Self.lookUpLimit)
    let addresses = await resolver.addresses(endpoint.host, limit)
    guard let addresses, !addresses.isEmpty else {
      if let known, now - known.checked < addressKept { return keepUnresolved(known, endpoint) }
      throw Refusal(outcome: .temporary(addresses == nil ? .resolverBusy : .unresolved))
    }
    // One is enough to make the name suspect.
    guard addresses.allSatisfy(isAllowed) else {
      forget(endpoint.origin)
      throw Refusal(outcome: .refused(.privateAddress))
    }
    guard let known, let place = known.address.flatMap({ addresses.firstIndex(of: $0) }) else {
      return keep(nil, endpoint, address: addresses[0])
    }
    // If one address does not answer, the next one is tried.
    let next = known.isFailed ? (place + 1) % addresses.count : place
    return keep(known, endpoint, address: addresses[next])
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

  /// Its name has no answer now: it serves as it is for a while.
  private func keepUnresolved(_ known: Service, _ endpoint: WebPushEndpoint) -> Service {
    services.withLock { services in
      if services[endpoint.origin]?.client === known.client {
        services[endpoint.origin]?.recheck = .now + Self.lookUpPause
      }
    }
    return known
  }

  private func keep(_ known: Service?, _ endpoint: WebPushEndpoint, address: String?) -> Service {
    let now = ContinuousClock.now
    return services.withLock { services in
      // Another request may have made one meanwhile, for the same address: it goes before the one known until then.
      if var kept = [services[endpoint.origin], known].compactMap(\.self).first(where: { $0.address == address }) {
        (kept.checked, kept.recheck, kept.used, kept.isFailed) = (now, now + addressLife, now, false)
        services[endpoint.origin] = kept
        return kept
      }
      var client = PushClient.Settings()
      client.connectionsMax = connectionsMax
      client.trust = trust
      if let address { client.addresses = [endpoint.host: address] }
      let made = Service(
        client: PushClient(client), address: address,
        token: services[endpoint.origin]?.token ?? makeToken(endpoint.origin),
        checked: now, recheck: now + addressLife, used: now)
      if services[endpoint.origin] == nil, services.count >= Self.servicesMax,
        let oldest = services.min(by: { $0.value.used < $1.value.used })
      {
        services[oldest.key] = nil
      }
      services[endpoint.origin] = made
      return made
    }
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
