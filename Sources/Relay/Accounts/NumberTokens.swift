import Crypto
package import RelayCore

/// Signed number tokens, by which a sister service that has verified a number lets it register here (reference 2.6).
package struct NumberTokens: Sendable {
  private let key: SymmetricKey
  private let clock: WallClock

  package init(key: SecretBytes, clock: WallClock) {
    self.key = SymmetricKey(data: key.bytes)
    self.clock = clock
  }

  /// A token that is valid from now on.
  package func token(for number: AccountNumber) -> Secret {
    let signed = "\(number.e164):\(clock.now().millis / 1000)"
    return Secret("\(signed):\(mac(signed))")
  }

  /// Whether `token` is one for `number`, made less than 24 whole hours before or after now.
  package func isValid(_ token: Secret, for number: AccountNumber) -> Bool {
    let parts = token.value.split(separator: ":", omittingEmptySubsequences: false)
    guard parts.count == 3, let seconds = Self.seconds(parts[1]) else { return false }
    // All is computed before anything is told: the time of an answer says nothing about the code.
    let isAuthentic = constantTimeEquals(Array(mac("\(parts[0]):\(parts[1])").utf8), Array(parts[2].utf8))
    let hours = abs(clock.now().millis - seconds * 1000) / 3_600_000
    return isAuthentic && parts[0] == number.e164 && hours < 24
  }

  /// Digits alone, and few enough that no sum overflows.
  private static func seconds(_ text: Substring) -> Int64? {
    guard (1...12).contains(text.utf8.count), text.utf8.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }) else { return nil }
    return Int64(text)
  }

  /// Lower-case hex of the first 10 bytes of HMAC-SHA256.
  private func mac(_ text: String) -> String {
    HMAC<SHA256>.authenticationCode(for: Array(text.utf8), using: key).prefix(10)
      .map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
  }
}
