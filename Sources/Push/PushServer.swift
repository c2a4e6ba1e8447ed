import RelayCore

/// A server that takes requests, as URLs name it.
struct PushServer: Sendable, Hashable {
  let isSecure: Bool
  /// In lower case; an IPv6 address without its brackets.
  let host: String
  let port: Int
  /// As requests name it: with the port where it is not the scheme's own.
  let authority: String

  /// - Parameter port: nil for the scheme's own.
  init(isSecure: Bool, host: String, port: Int?) {
    let usual = isSecure ? 443 : 80
    let name = host.contains(":") ? "[\(host)]" : host
    self.isSecure = isSecure
    self.host = host
    self.port = port ?? usual
    authority = self.port == usual ? name : "\(name):\(self.port)"
  }
}

/// The target of a request.
struct PushURL: Sensitive, Sendable, Equatable {
  static let kind: StaticString = "push URL"
  let server: PushServer
  /// Path and query; begins with a slash.
  let path: String

  init(_ server: PushServer, path: String) {
    self.server = server
    self.path = path
  }

  /// - Returns: nil for what is no HTTP URL of plain ASCII, has no host, or names a user.
  init?(_ text: String) {
    guard let endpoint = WebPushEndpoint(text) else { return nil }
    self.init(endpoint.server, path: endpoint.path)
  }

  /// - Parameter path: begins with a slash; plain ASCII without spaces.
  func appending(_ path: String) -> PushURL {
    PushURL(server, path: self.path == "/" ? path : self.path + path)
  }
}

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
