import Crypto
package import RelayCore

/// Signed number tokens, by which a sister service that has verified a number lets it register here (reference 2.6).
///
/// The signature covers a number and a second. The store decides which seconds hold for an account
/// (`AccountStore.register`): each once, and none from before the last registration.
package struct NumberTokens: Sendable {
  private let key: SymmetricKey
  private let clock: WallClock

  package init(key: SecretBytes, clock: WallClock) {
    self.key = SymmetricKey(data: key.bytes)
    self.clock = clock
  }

  /// - Parameter second: since 1970.
  package func token(for number: AccountNumber, second: Int64) -> Secret {
    let signed = "\(number.e164):\(second)"
    return Secret("\(signed):\(mac(signed))")
  }

  /// The second that `token` bears.
  /// - Returns: nil unless it is one for `number`, signed, less than ten minutes old, and not from beyond what clocks
  ///   differ by.
  package func second(of token: Secret, for number: AccountNumber) -> Int64? {
    let parts = token.value.split(separator: ":", omittingEmptySubsequences: false)
    guard parts.count == 3, let second = Self.second(parts[1]) else { return nil }
    // All is computed before anything is told: the time of an answer says nothing about the code.
    let isAuthentic = constantTimeEquals(Array(mac("\(parts[0]):\(parts[1])").utf8), Array(parts[2].utf8))
    let isTimely = Self.ages.contains(clock.now().millis - second * 1000)
    return isAuthentic && parts[0] == number.e164 && isTimely ? second : nil
  }

  /// How long until a token that bears `second` is good; nil when it is.
  func wait(for second: Int64) -> Duration? {
    let early = second * 1000 - clock.now().millis - Self.aheadMillis
    return early > 0 ? .milliseconds(early) : nil
  }

  private static let lifetimeMillis: Int64 = 600_000
  /// A sister's clock may be ahead; and so is the second of a token that is drawn at once behind a registration.
  private static let aheadMillis: Int64 = 60_000
  private static let ages = -aheadMillis..<lifetimeMillis

  /// Digits alone, and few enough that no sum overflows.
  private static func second(_ text: Substring) -> Int64? {
    guard (1...12).contains(text.utf8.count), text.utf8.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }) else { return nil }
    return Int64(text)
  }

  /// Lower-case hex of the first 10 bytes of HMAC-SHA256.
  private func mac(_ text: String) -> String {
    HMAC<SHA256>.authenticationCode(for: Array(text.utf8), using: key).prefix(10)
      .map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
  }
}
