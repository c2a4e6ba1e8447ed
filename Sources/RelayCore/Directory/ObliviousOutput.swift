/// The output of the oblivious pseudorandom function for a contact token, cut to its first 8 bytes
/// (docs/directory.md, "Oblivious look-up").
///
/// With N registered contacts, an unregistered contact looks registered with a chance of N / 2^64.
package struct ObliviousOutput: Sendable, Hashable, Comparable {
  package static let byteCount = 8
  /// The bytes, big-endian.
  package let bits: UInt64

  package init(bits: UInt64) { self.bits = bits }

  /// - Returns: nil unless there are exactly 8 bytes.
  package init?(bytes: some Collection<UInt8>) {
    guard bytes.count == Self.byteCount else { return nil }
    self.init(firstBytesOf: bytes)
  }

  /// The first 8 bytes of the function's 64.
  package init(firstBytesOf output: some Collection<UInt8>) {
    bits = output.prefix(Self.byteCount).reduce(0) { $0 << 8 | UInt64($1) }
  }

  /// Always 8 bytes.
  package var bytes: [UInt8] { (0..<8).map { UInt8(truncatingIfNeeded: bits >> UInt64(56 - 8 * $0)) } }

  package static func < (a: Self, b: Self) -> Bool { a.bits < b.bits }
}

/// A contact and its output.
package struct ContactOutput: Sendable, Hashable {
  package let token: ContactToken
  package let output: ObliviousOutput
  package init(_ token: ContactToken, _ output: ObliviousOutput) {
    self.token = token
    self.output = output
  }
}

/// Tells the keys of the function apart: the first 8 bytes of SHA-256 of the public key.
package struct ObliviousKeyID: Sendable, Hashable {
  /// Big-endian.
  package let bits: UInt64
  package init(bits: UInt64) { self.bits = bits }
}

/// The outputs that begin with some hexadecimal digits.
package struct ObliviousPrefix: Sendable, Hashable {
  package static let digitsMax = 8
  /// 0 for all outputs.
  package let digitCount: Int
  /// At the upper end; 0 behind the digits.
  private let bits: UInt64

  /// All outputs.
  package static let all = ObliviousPrefix(digitCount: 0, bits: 0)

  private init(digitCount: Int, bits: UInt64) {
    self.digitCount = digitCount
    self.bits = bits
  }

  /// - Returns: nil unless there are 0 to 8 hexadecimal digits, of either case.
  package init?(_ digits: some StringProtocol) {
    guard digits.utf8.count <= Self.digitsMax, let value = Self.value(ofHex: digits) else { return nil }
    digitCount = digits.utf8.count
    bits = digitCount == 0 ? 0 : value << UInt64(64 - 4 * digitCount)
  }

  /// The prefix of `digitCount` digits (0 to 8) that `output` has.
  package init(of output: ObliviousOutput, digitCount: Int) {
    self.init(digitCount: digitCount, bits: output.bits & ~Self.rest(behind: digitCount))
  }

  /// In lower case.
  package var text: String {
    (0..<digitCount).map { String(bits >> UInt64(60 - 4 * $0) & 15, radix: 16) }.joined()
  }

  /// Never empty.
  package var range: ClosedRange<ObliviousOutput> {
    ObliviousOutput(bits: bits)...ObliviousOutput(bits: bits | Self.rest(behind: digitCount))
  }

  /// The longest prefix by which `count` outputs fall into parts of 64 to 1,023 on average; 0 digits for fewer than
  /// 1,024.
  package static func suggestedDigits(for count: Int) -> Int {
    var (digits, rest) = (0, count)
    while digits < digitsMax, rest >= partMin * 16 {
      rest /= 16
      digits += 1
    }
    return digits
  }

  private static let partMin = 64

  /// The bits that may be anything behind so many digits.
  private static func rest(behind digitCount: Int) -> UInt64 {
    digitCount == 0 ? .max : UInt64.max >> UInt64(4 * digitCount)
  }

  /// - Returns: nil for anything but hexadecimal digits, at most 16; 0 for none.
  fileprivate static func value(ofHex digits: some StringProtocol) -> UInt64? {
    guard digits.utf8.count <= 16 else { return nil }
    var value: UInt64 = 0
    for character in digits.utf8 {
      let digit: UInt8
      switch character {
      case 0x30...0x39: digit = character - 0x30
      case 0x41...0x46: digit = character - 0x41 + 10
      case 0x61...0x66: digit = character - 0x61 + 10
      default: return nil
      }
      value = value << 4 | UInt64(digit)
    }
    return value
  }
}

/// A place among the outputs as clients keep it: opaque to them.
extension ObliviousOutput {
  /// 16 hexadecimal digits.
  package var cursorText: String {
    let digits = String(bits, radix: 16)
    return String(repeating: "0", count: 16 - digits.utf8.count) + digits
  }

  /// - Returns: nil for anything else than `cursorText` writes.
  package init?(cursorText text: some StringProtocol) {
    guard text.utf8.count == 16, let bits = ObliviousPrefix.value(ofHex: text) else { return nil }
    self.init(bits: bits)
  }
}
