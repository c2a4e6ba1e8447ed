/// One point in two forms: X25519's keys are the `u` of the Montgomery curve, Ed25519 verifies with the `y` of the
/// Edwards curve and the sign of its `x` (RFC 7748, 4.1).
package enum Curve25519Point {
  package static let byteCount = 32

  /// The Edwards form, as RFC 8032 encodes it, of the point with that `u`: y = (u - 1) / (u + 1).
  ///
  /// For public keys alone: its time depends on them. No library here converts points, hence arithmetic of our own.
  /// - Parameters:
  ///   - bytes: `u`, 32 bytes, little-endian; the last bit is ignored (RFC 7748, 5).
  ///   - isNegative: the sign of x, which `u` does not tell.
  /// - Returns: 32 bytes; nil for another count of bytes, and for u = -1, which the Edwards curve has no point for.
  package static func edwards(u bytes: some Collection<UInt8>, isNegative: Bool) -> [UInt8]? {
    guard bytes.count == byteCount else { return nil }
    let u = Residue(littleEndian: bytes)
    let denominator = u + .one
    guard denominator != .zero else { return nil }
    var y = ((u + .minusOne) * denominator.inverse).littleEndianBytes
    if isNegative { y[byteCount - 1] |= 0x80 }
    return y
  }
}

/// An integer modulo p = 2^255 - 19.
struct Residue: Equatable {
  /// Little-endian, below p.
  private let limbs: SIMD4<UInt64>

  static let zero = Residue(SIMD4(0, 0, 0, 0))
  static let one = Residue(SIMD4(1, 0, 0, 0))
  static let minusOne = Residue(SIMD4(.max - 19, .max, .max, highBitClear))

  /// - Parameter bytes: 32 of them; the last bit is ignored.
  init(littleEndian bytes: some Collection<UInt8>) {
    var limbs = SIMD4<UInt64>()
    for (index, byte) in bytes.enumerated() { limbs[index / 8] |= UInt64(byte) << UInt64(8 * (index % 8)) }
    limbs[3] &= Self.highBitClear
    self.init(limbs)
  }

  /// `value`, plus `other` times `factor`.
  private init(_ value: SIMD4<UInt64>, plus other: SIMD4<UInt64> = SIMD4(), times factor: UInt64 = 1) {
    var sum = value
    var overflow = Self.add(other, times: factor, to: &sum)
    // 2^256 is 38 here.
    while overflow > 0 { overflow = Self.add(SIMD4(overflow, 0, 0, 0), times: 38, to: &sum) }
    limbs = Self.belowModulus(sum)
  }

  static func + (a: Residue, b: Residue) -> Residue { Residue(a.limbs, plus: b.limbs) }

  static func * (a: Residue, b: Residue) -> Residue {
    var product = SIMD8<UInt64>()
    for i in 0..<4 {
      var carry: UInt64 = 0
      for j in 0..<4 {
        let sum = UInt128(a.limbs[i]) * UInt128(b.limbs[j]) + UInt128(product[i + j]) + UInt128(carry)
        product[i + j] = UInt64(truncatingIfNeeded: sum)
        carry = UInt64(truncatingIfNeeded: sum >> 64)
      }
      product[i + 4] = carry
    }
    return Residue(product.lowHalf, plus: product.highHalf, times: 38)
  }

  /// The power p - 2, which is 1/x by Fermat; 0 for 0.
  var inverse: Residue {
    var power = self
    // p - 2 = 2^255 - 21 has 255 bits, all of them 1 but those of 20.
    for bit in (0..<254).reversed() {
      power = power * power
      if bit != 2, bit != 4 { power = power * self }
    }
    return power
  }

  /// 32 of them.
  var littleEndianBytes: [UInt8] {
    (0..<32).map { UInt8(truncatingIfNeeded: limbs[$0 / 8] >> UInt64(8 * ($0 % 8))) }
  }

  private static let highBitClear = UInt64.max >> 1

  /// - Returns: what does not fit into 256 bits.
  private static func add(_ value: SIMD4<UInt64>, times factor: UInt64, to sum: inout SIMD4<UInt64>) -> UInt64 {
    var carry: UInt64 = 0
    for index in 0..<4 {
      let limb = UInt128(value[index]) * UInt128(factor) + UInt128(sum[index]) + UInt128(carry)
      sum[index] = UInt64(truncatingIfNeeded: limb)
      carry = UInt64(truncatingIfNeeded: limb >> 64)
    }
    return carry
  }

  /// `value` modulo p. 2^255 is 19 here.
  private static func belowModulus(_ value: SIMD4<UInt64>) -> SIMD4<UInt64> {
    var reduced = value
    reduced[3] &= highBitClear
    _ = add(SIMD4(value[3] >> 63, 0, 0, 0), times: 19, to: &reduced)
    // From p on, 19 more reach bit 255; without that bit it is the value less p.
    var lessModulus = reduced
    _ = add(SIMD4(1, 0, 0, 0), times: 19, to: &lessModulus)
    guard lessModulus[3] > highBitClear else { return reduced }
    lessModulus[3] &= highBitClear
    return lessModulus
  }
}
