/// Addresses of providers that take the place of their own ones.
package struct PushEndpoints: Sendable {
  /// `https://HOST[:PORT]`, no slash at the end; nil for the provider's own.
  package var apns: String?
  /// The same, perhaps with a path.
  package var fcm: String?
  /// Takes the place of what service accounts say.
  package var fcmOAuth: String?
  /// A PEM file with CAs to be trusted beside the system's.
  package var trust: String?
  /// Whether WebPush may reach loopback and private addresses, and without TLS.
  package var allowsPrivate = false

  package init() {}
}
