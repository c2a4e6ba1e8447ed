/// A push key as APNs' path has it (reference 4.2).
package enum APNsDeviceToken {
  /// Apple's have 32 bytes, and may have up to 100; what is far longer is none and must not fill a request's path.
  private static let digitsMax = 1024

  /// - Parameter converts: the app's `convert_device_token_to_hex`: the push key is base64; else it is the hexadecimal
  ///   token.
  /// - Returns: hexadecimal digits; nil for a push key that can never work.
  package static func token(from pushKey: String, converts: Bool) -> String? {
    let token = converts ? hexadecimal(base64: pushKey) : pushKey
    guard let token, (1...digitsMax).contains(token.utf8.count), token.utf8.allSatisfy(isHexadecimalDigit) else {
      return nil
    }
    return token
  }

  /// Decodes as the reference does: whatever is not of the standard alphabet is stepped over, `-` and `_` too, and
  /// nothing is read behind whole padding. Then in lower-case hexadecimal.
  /// - Returns: nil when the last group of characters is not whole.
  package static func hexadecimal(base64 pushKey: String) -> String? {
    var output: [UInt8] = []
    var bits: UInt32 = 0
    var held = 0
    var padding = 0
    reading: for character in pushKey.utf8 {
      guard character < 0x80 else { return nil }
      if character == UInt8(ascii: "=") {
        if held >= 2 { padding += 1 }
        if held >= 2, held + padding >= 4 {
          held = 0
          break reading
        }
        continue
      }
      guard let value = value(of: character) else { continue }
      padding = 0
      bits = bits << 6 | value
      held = (held + 1) & 3
      // The first of four characters completes no byte.
      guard held != 1 else { continue }
      let byte = UInt8(truncatingIfNeeded: held == 0 ? bits : bits >> (held == 2 ? 4 : 2))
      output.append(hexadecimalDigit(byte >> 4))
      output.append(hexadecimalDigit(byte & 15))
    }
    return held == 0 ? String(decoding: output, as: UTF8.self) : nil
  }

  private static func value(of character: UInt8) -> UInt32? {
    switch character {
    case UInt8(ascii: "A")...UInt8(ascii: "Z"): UInt32(character - UInt8(ascii: "A"))
    case UInt8(ascii: "a")...UInt8(ascii: "z"): UInt32(character - UInt8(ascii: "a") + 26)
    case UInt8(ascii: "0")...UInt8(ascii: "9"): UInt32(character - UInt8(ascii: "0") + 52)
    case UInt8(ascii: "+"): 62
    case UInt8(ascii: "/"): 63
    default: nil
    }
  }

  private static func isHexadecimalDigit(_ character: UInt8) -> Bool {
    switch character {
    case 0x30...0x39, 0x41...0x46, 0x61...0x66: true
    default: false
    }
  }
}
