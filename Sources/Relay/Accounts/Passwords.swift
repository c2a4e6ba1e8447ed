import Crypto
package import RelayCore

/// How device passwords are stored and compared (docs/decisions/2026-11-21-password-hash.md).
package enum Passwords {
  package static func hash(_ password: Secret) -> PasswordHash {
    var generator = SystemRandomNumberGenerator()
    let salt = (0..<16).map { _ in UInt8.random(in: 0...255, using: &generator) }
    return PasswordHash(salt: salt, hash: mac(password, salt: salt))
  }

  /// Takes the same time whether `stored` exists or not, and wherever the difference lies.
  package static func verify(_ password: Secret, against stored: PasswordHash?) -> Bool {
    let reference = stored ?? absent
    let isEqual = constantTimeEquals(mac(password, salt: reference.salt), reference.hash)
    return isEqual && stored != nil
  }

  private static let absent = PasswordHash(
    salt: [UInt8](repeating: 0, count: 16), hash: [UInt8](repeating: 0, count: 32))

  private static func mac(_ password: Secret, salt: [UInt8]) -> [UInt8] {
    let code = HMAC<SHA256>.authenticationCode(for: Array(password.value.utf8), using: SymmetricKey(data: salt))
    return Array(code)
  }
}
