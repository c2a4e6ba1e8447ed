package import RelayCore

/// One application's sending to browsers and other WebPush clients.
package struct WebPushSettings: Sendable {
  /// PEM, a P-256 key: what proves us (RFC 8292).
  package var keyFile: String
  /// The contact for push services: `mailto:ADDRESS` or an `https:` URL.
  package var contact: String
  /// nil for all.
  package var allowedEndpoints: [PushGlob]?
  /// How long a push service keeps what it cannot deliver, for messages that do not say.
  package var timeToLive: Duration
  /// Whether requests may go to loopback and private addresses, and without TLS.
  package var allowsPrivate: Bool
  /// A PEM file with CAs to be trusted beside the system's; nil for none.
  package var trust: String?
  /// Requests to one push service at a time.
  package var connectionsMax: Int

  /// - Parameter allowedEndpoints: globs of the authority of an endpoint's URL, whatever its case; nil for all.
  package init(
    keyFile: String, contact: String, allowedEndpoints: [String]? = nil, timeToLive: Duration = .seconds(900),
    allowsPrivate: Bool = false, trust: String? = nil, connectionsMax: Int = 20
  ) {
    self.keyFile = keyFile
    self.contact = contact
    self.allowedEndpoints = allowedEndpoints?.map { PushGlob($0, ignoringCase: true) }
    self.timeToLive = timeToLive
    self.allowsPrivate = allowsPrivate
    self.trust = trust
    self.connectionsMax = connectionsMax
  }

  /// Whether `endpoint`, a URL, is one of those allowed. Its authority counts as it is written, port and user included
  /// (push gateway reference, 7.2).
  package func allows(_ endpoint: String) -> Bool {
    guard let allowedEndpoints else { return true }
    guard let authority = WebPushEndpoint.authority(endpoint) else { return false }
    return allowedEndpoints.contains { $0.matches(authority) }
  }

  /// Whether pushes to what was registered could ever be sent: the rules by which they are refused later on, as far as
  /// they can be told before a name is looked up.
  package static func isUsable(
    _ registration: WebPushRegistration, allowsPrivate: Bool, allowedEndpoints: [PushGlob]? = nil
  ) -> Bool {
    guard let endpoint = WebPushSubscription(registration)?.place, endpoint.isSecure || allowsPrivate else {
      return false
    }
    if !allowsPrivate, ClientAddress(text: endpoint.host) != nil, !PublicAddress.isPublic(endpoint.host) {
      return false
    }
    guard let allowedEndpoints else { return true }
    guard let authority = WebPushEndpoint.authority(registration.endpoint) else { return false }
    return allowedEndpoints.contains { $0.matches(authority) }
  }
}
