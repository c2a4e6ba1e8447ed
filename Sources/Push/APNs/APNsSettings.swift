/// One app at Apple's service.
package struct APNsSettings: Sendable {
  package enum Authentication: Sendable {
    /// - Parameters:
    ///   - keyFile: the `.p8` file.
    ///   - topic: the bundle's id.
    case token(keyFile: String, keyID: String, teamID: String, topic: String)
    /// - Parameters:
    ///   - file: PEM, the certificate and its unencrypted key.
    ///   - topic: nil for what the certificate says (its subject's UID).
    case certificate(file: String, topic: String?)

    var file: String {
      switch self {
      case .token(let file, _, _, _), .certificate(let file, _): file
      }
    }
  }

  package static let production = "https://api.push.apple.com"
  package static let sandbox = "https://api.sandbox.push.apple.com"

  package var authentication: Authentication
  /// `https://HOST[:PORT]`, no slash at the end.
  package var endpoint: String
  /// A PEM file with CAs to be trusted beside the system's; nil for none.
  package var trust: String?

  package init(authentication: Authentication, endpoint: String = production, trust: String? = nil) {
    self.authentication = authentication
    self.endpoint = endpoint
    self.trust = trust
  }
}
