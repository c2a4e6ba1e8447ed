import CSodium

/// A number below the group's order that anybody may know: a weight of a batch, or a part of a proof. Little-endian.
struct Scalar: Sendable, Hashable {
  static let byteCount = 32
  let encoding: SIMD32<UInt8>

  /// - Returns: nil unless there are 32 bytes of a number below the order (RFC 9497, section 4.1).
  init?(bytes: some Collection<UInt8>) {
    guard let encoding = SIMD32(bytes: bytes) else { return nil }
    self.init(wide: encoding.bytes + [UInt8](repeating: 0, count: 32))
    guard self.encoding == encoding else { return nil }
  }

  /// The rest of a number of 64 bytes, divided by the order.
  init(wide: [UInt8]) {
    var encoding = SIMD32<UInt8>()
    encoding.withMutableBytes { crypto_core_ristretto255_scalar_reduce($0, wide) }
    self.encoding = encoding
  }

  /// Copies a number that is secret no more.
  init(copying bytes: UnsafePointer<UInt8>) {
    var encoding = SIMD32<UInt8>()
    encoding.withMutableBytes { $0.update(from: bytes, count: Self.byteCount) }
    self.encoding = encoding
  }

  /// Always 32 bytes.
  var bytes: [UInt8] { encoding.bytes }
}

/// Numbers below the group's order that nobody else may know: keys and blinds. They have no textual form, and their
/// memory is wiped when it is freed.
// `@unchecked Sendable`: they are written before they are shared, and not after.
final class SecretScalars: @unchecked Sendable {
  let count: Int
  private let bytes: UnsafeMutablePointer<UInt8>

  /// All are 0 until they are written.
  init(count: Int) {
    self.count = count
    bytes = .allocate(capacity: max(1, count) * Scalar.byteCount)
    bytes.initialize(repeating: 0, count: max(1, count) * Scalar.byteCount)
  }

  deinit {
    sodium_memzero(bytes, max(1, count) * Scalar.byteCount)
    bytes.deallocate()
  }

  /// Drawn at random, none of them 0.
  static func random(count: Int) -> SecretScalars {
    let scalars = SecretScalars(count: count)
    var (random, wide) = (SystemRandomNumberGenerator(), [UInt8](repeating: 0, count: 64))
    defer { Suite.wipe(&wide) }
    for index in 0..<count {
      repeat {
        wide.withUnsafeMutableBytes { bytes in
          for offset in stride(from: 0, to: bytes.count, by: 8) {
            bytes.storeBytes(of: random.next(), toByteOffset: offset, as: UInt64.self)
          }
        }
        scalars.write(index) { crypto_core_ristretto255_scalar_reduce($0, wide) }
      } while scalars.isZero(index)
    }
    return scalars
  }

  /// - Parameter wide: 64 bytes, taken modulo the order.
  static func reduced(_ wide: [UInt8]) -> SecretScalars {
    let scalar = SecretScalars(count: 1)
    scalar.write(0) { crypto_core_ristretto255_scalar_reduce($0, wide) }
    return scalar
  }

  func isZero(_ index: Int) -> Bool { read(index) { sodium_is_zero($0, Scalar.byteCount) } == 1 }

  /// Lends the 32 bytes of a number.
  func read<Result>(_ index: Int, _ body: (UnsafePointer<UInt8>) -> Result) -> Result {
    body(UnsafePointer(bytes + index * Scalar.byteCount))
  }

  func write(_ index: Int, _ body: (UnsafeMutablePointer<UInt8>) -> Void) { body(bytes + index * Scalar.byteCount) }

  /// The inverse of each, by one inversion for all of them (Montgomery's trick).
  /// - Returns: nil where one is 0.
  func inverses() -> SecretScalars? {
    guard count > 0 else { return SecretScalars(count: 0) }
    // The product of all numbers up to each one; then, from the end, its inverse without that one.
    let (inverses, rest) = (SecretScalars(count: count), SecretScalars(count: 1))
    inverses.write(0) { first in read(0) { first.update(from: $0, count: Scalar.byteCount) } }
    for index in 1..<max(1, count) {
      inverses.write(index) { product in
        inverses.read(index - 1) { former in read(index) { crypto_core_ristretto255_scalar_mul(product, former, $0) } }
      }
    }
    var isInvertible = false
    rest.write(0) { inverse in
      isInvertible = inverses.read(count - 1) { crypto_core_ristretto255_scalar_invert(inverse, $0) } == 0
    }
    guard isInvertible else { return nil }
    for index in (0..<count).reversed() {
      rest.write(0) { rest in
        inverses.write(index) { inverse in
          if index == 0 {
            inverse.update(from: rest, count: Scalar.byteCount)
          } else {
            inverses.read(index - 1) { crypto_core_ristretto255_scalar_mul(inverse, rest, $0) }
          }
        }
        read(index) { crypto_core_ristretto255_scalar_mul(rest, rest, $0) }
      }
    }
    return inverses
  }
}

extension SecretScalars {
  /// The first number less `challenge` times `key`: a number that tells neither.
  func difference(to challenge: Scalar, times key: UnsafePointer<UInt8>) -> Scalar {
    let result = SecretScalars(count: 1)
    result.write(0) { result in
      challenge.encoding.withBytes { crypto_core_ristretto255_scalar_mul(result, $0, key) }
      read(0) { crypto_core_ristretto255_scalar_sub(result, $0, result) }
    }
    return result.read(0) { Scalar(copying: $0) }
  }
}
