package import RelayCore

extension WebPushSettings {
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
