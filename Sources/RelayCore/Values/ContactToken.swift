/// The hash a contact is looked up by: the first 10 bytes of SHA-1 of the number (reference 2.1).
package struct ContactToken: Sensitive, Sendable, Hashable, Comparable {
  package static let kind: StaticString = "token"
  package static let byteCount = 10
  /// Bytes 0...7, big-endian, and bytes 8...9, big-endian.
  package let high: UInt64
  package let low: UInt16

  // Inlined elsewhere: parts of the directory make millions of tokens a second.
  @inlinable
  package init(high: UInt64, low: UInt16) {
    self.high = high
    self.low = low
  }

  /// - Returns: nil unless there are exactly 10 bytes.
  package init?(bytes: some Collection<UInt8>) {
    guard bytes.count == Self.byteCount else { return nil }
    self.init(firstBytesOf: bytes)
  }

  /// The first 10 bytes of a digest, which has more.
  package init(firstBytesOf digest: some Collection<UInt8>) {
    var high: UInt64 = 0
    var low: UInt16 = 0
    for (index, byte) in digest.prefix(Self.byteCount).enumerated() {
      if index < 8 { high = high << 8 | UInt64(byte) } else { low = low << 8 | UInt16(byte) }
    }
    self.init(high: high, low: low)
  }

  /// Always 10 bytes.
  package var bytes: [UInt8] {
    (0..<8).map { UInt8(truncatingIfNeeded: high >> UInt64(56 - 8 * $0)) }
      + [UInt8(truncatingIfNeeded: low >> 8), UInt8(truncatingIfNeeded: low)]
  }
  /// The form of every answer: 14 characters, standard alphabet, no padding (reference 1.11).
  package var base64: String { Base64.encode(bytes, padded: false) }

  package static func < (a: Self, b: Self) -> Bool { (a.high, a.low) < (b.high, b.low) }
}

// MARK: - As most clients write it

extension ContactToken {
  /// Characters of base64 that hold 10 bytes without padding.
  static let plainTextLength = 14

  /// - Parameters:
  ///   - text: holds `plainTextLength` bytes from `offset` on.
  ///   - values: `Base64.values`.
  /// - Returns: nil unless all are characters of base64, of either alphabet; bits that are left over are ignored.
  @inline(__always)
  init?(plainText text: RawSpan, at offset: Int, _ values: UnsafeBufferPointer<UInt8>) {
    var (high, rest, isForeign): (UInt64, UInt64, UInt8) = (0, 0, 0)
    for index in 0..<10 {
      let value = values[Int(text.unsafeLoad(fromByteOffset: offset &+ index, as: UInt8.self))]
      isForeign |= value
      high = high &<< 6 | UInt64(value)
    }
    for index in 10..<Self.plainTextLength {
      let value = values[Int(text.unsafeLoad(fromByteOffset: offset &+ index, as: UInt8.self))]
      isForeign |= value
      rest = rest &<< 6 | UInt64(value)
    }
    // A byte that is no character of base64 has a value of 64 or more.
    guard isForeign < 64 else { return nil }
    // 60 bits and 24, of which the last 4 are left over: 80 in all.
    self.init(high: high &<< 4 | rest &>> 20, low: UInt16(truncatingIfNeeded: rest &>> 4))
  }

  /// The token's `base64`.
  /// - Parameters:
  ///   - text: takes `plainTextLength` characters.
  ///   - alphabet: `Base64.alphabet`.
  @inline(__always)
  func writePlainText(to text: UnsafeMutablePointer<UInt8>, _ alphabet: UnsafeBufferPointer<UInt8>) {
    let rest = (high & 0xF) &<< 20 | UInt64(low) &<< 4
    for index in 0..<10 { text[index] = alphabet[Int(high &>> UInt64(58 &- 6 &* index) & 63)] }
    for index in 0..<4 { text[10 &+ index] = alphabet[Int(rest &>> UInt64(18 &- 6 &* index) & 63)] }
  }
}
