import Crypto
import NIOSSL
import RelayCore
import RelayHTTP
import RelayWork

/// The credentials that prove us to push services (RFC 8292).
final class WebPushCredentials: Sendable {
  /// A token may live 24 hours; half of it is used up by clocks that differ.
  private static let tokenLife = Duration.seconds(12 * 3600)
  private static let tokenUse = Duration.seconds(6 * 3600)

  let services: WebPushServices
  /// Ours, in base64url: stands beside each token.
  let publicKey: String
  private let source: [String]

  /// Reads the files. - Returns: `former` when nothing in them has changed.
  static func load(
    _ settings: WebPushSettings, former: WebPushCredentials?, clock: WallClock, resolver: HostResolver
  ) throws(PushCredentialError) -> WebPushCredentials {
    var source = [try CredentialFile.read(settings.keyFile)]
    if let trust = settings.trust { source.append(try CredentialFile.read(trust)) }
    if let former, former.source == source { return former }
    return try WebPushCredentials(settings, source, clock, resolver)
  }

  private init(
    _ settings: WebPushSettings, _ source: [String], _ clock: WallClock, _ resolver: HostResolver
  ) throws(PushCredentialError) {
    let key = try CredentialFile.signingKey(settings.keyFile)
    let contact = settings.contact
    self.source = source
    let publicKey = Base64.encodeURLSafe(key.publicKey.x963Representation)
    self.publicKey = publicKey
    services = WebPushServices(
      allowsPrivate: settings.allowsPrivate, connectionsMax: settings.connectionsMax,
      trust: try CredentialFile.authorities(settings.trust), resolver: resolver
    ) { origin in
      SharedToken {
        let now = clock.now()
        let claims = VAPIDClaims(aud: origin, sub: contact, exp: now.adding(Self.tokenLife).millis / 1000)
        do {
          let text = try await TokenSigning.sign(claims, by: key)
          return .success(
            .init(authorization: "vapid t=\(text),k=\(publicKey)", made: now, renewal: now.adding(Self.tokenUse)))
        } catch {
          return .failure(.init(outcome: .refused(PushReason(.credentials, "unsigned"))))
        }
      }
    }
  }
}
