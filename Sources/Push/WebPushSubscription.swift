import Crypto
package import RelayCore

/// The subscription that a browser's push service gave the application (RFC 8030, 8291).
package struct WebPushSubscription: Sensitive, Sendable, Hashable {
  package static let kind: StaticString = "WebPush subscription"
  /// A URL.
  package let endpoint: String
  /// An uncompressed point of P-256: 65 bytes.
  package let publicKey: [UInt8]
  /// 16 bytes.
  package let authentication: [UInt8]
  /// `endpoint`, taken apart.
  let place: WebPushEndpoint
  /// `publicKey`, found to be on the curve.
  let key: P256.KeyAgreement.PublicKey

  /// - Parameters: what stands in base64 in the texts that an application is given, as bytes.
  /// - Returns: nil unless the endpoint is an HTTP URL with a host, and the key and the secret can be used.
  package init?(endpoint: String, publicKey: [UInt8], authentication: [UInt8]) {
    // It is no key, whatever is wrong with it.
    guard let place = WebPushEndpoint(endpoint), authentication.count == 16,
      let key = try? P256.KeyAgreement.PublicKey(x963Representation: publicKey)
    else { return nil }
    self.endpoint = endpoint
    self.publicKey = publicKey
    self.authentication = authentication
    self.place = place
    self.key = key
  }

  /// - Returns: nil as the others.
  package init?(_ registration: WebPushRegistration) {
    self.init(endpoint: registration.endpoint, p256dh: registration.p256dh, auth: registration.auth)
  }

  /// - Parameters:
  ///   - p256dh: base64url of the public key.
  ///   - auth: base64url of the secret.
  package init?(endpoint: String, p256dh: String, auth: String) {
    guard let publicKey = Base64.decode(p256dh), let authentication = Base64.decode(auth) else { return nil }
    self.init(endpoint: endpoint, publicKey: publicKey, authentication: authentication)
  }

  package static func == (a: WebPushSubscription, b: WebPushSubscription) -> Bool {
    a.endpoint == b.endpoint && a.publicKey == b.publicKey && a.authentication == b.authentication
  }

  package func hash(into hasher: inout Hasher) {
    hasher.combine(endpoint)
    hasher.combine(publicKey)
    hasher.combine(authentication)
  }
}
