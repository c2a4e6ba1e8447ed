import Crypto
import JWTKit
import RelayCore

/// JSON web tokens as the providers want them (RFC 7515, 7519).
enum TokenSigning {
  /// ES256: Apple's and VAPID's.
  /// - Parameter keyID: nil leaves it out.
  static func sign(
    _ claims: some JWTPayload, by key: P256.Signing.PrivateKey, keyID: String? = nil
  ) async throws -> String {
    let keys = JWTKeyCollection()
    await keys.add(ecdsa: try ES256PrivateKey(backing: key))
    return try await keys.sign(claims, header: header(keyID))
  }

  /// RS256: Google's.
  static func sign(_ claims: some JWTPayload, by key: JWTKit.Insecure.RSA.PrivateKey, keyID: String?) async throws
    -> String
  {
    let keys = JWTKeyCollection()
    await keys.add(rsa: key, digestAlgorithm: .sha256)
    return try await keys.sign(claims, header: header(keyID))
  }

  private static func header(_ keyID: String?) -> JWTHeader {
    var header = JWTHeader()
    header.typ = "JWT"
    // Setting nil would write `null`.
    if let keyID { header.kid = keyID }
    return header
  }
}

/// Claims that are made here and read by others: there is nothing to verify.
protocol SignedClaims: JWTPayload {}

extension SignedClaims {
  func verify(using algorithm: some JWTAlgorithm) async throws {}
}

/// The claims for Apple: whose key it is, and since when.
struct APNsClaims: SignedClaims {
  let iss: String
  /// Seconds since 1970, as all times here.
  let iat: Int64
}

/// The claims of a service account for Google (OAuth 2.0 for service accounts).
struct FCMClaims: SignedClaims {
  let iss: String
  let scope: String
  let aud: String
  let iat: Int64
  let exp: Int64
}

/// The claims about the sender for a WebPush service (RFC 8292, 2).
struct VAPIDClaims: SignedClaims {
  let aud: String
  let sub: String
  let exp: Int64
}
