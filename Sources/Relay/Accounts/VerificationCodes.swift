import RelayCore

/// Codes by which numbers are proved and devices linked (reference 1.4, 1.14).
enum VerificationCodes {
  /// Uniform over 100000...999999: six digits, never a leading zero.
  static func draw() -> Secret {
    var generator = SystemRandomNumberGenerator()
    return Secret(String(Int.random(in: 100_000...999_999, using: &generator)))
  }

  /// `ddd-ddd`, as people read it.
  static func displayed(_ code: Secret) -> Secret { Secret("\(code.value.prefix(3))-\(code.value.suffix(3))") }

  /// The text that a voice gateway reads aloud: the digits one by one, three times (reference 1.4).
  /// - Returns: nil unless `code` is six digits, with a hyphen in the middle or not. Nothing else may get into the
  ///   XML (reference Part 6, 21).
  static func twiml(_ code: Secret) -> String? {
    var digits = Array(code.value.utf8)
    if digits.count == 7, digits[3] == UInt8(ascii: "-") { digits.remove(at: 3) }
    guard digits.count == 6, digits.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }) else { return nil }
    let spoken = digits.map { String(UnicodeScalar($0)) }.joined(separator: ", ")
    return "<Response><Say loop=\"3\">Your verification code is: \(spoken).</Say></Response>"
  }
}
