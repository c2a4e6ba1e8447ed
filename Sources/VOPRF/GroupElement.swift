import CSodium

/// The 32 bytes that stand for an element of ristretto255 on the wire (RFC 9496, section 4.3).
///
/// Bytes of another form are refused as soon as something is computed with them: a product is nil then. So a batch
/// decodes each element no more often than it must.
package struct GroupElement: Sendable, Hashable {
  let encoding: SIMD32<UInt8>

  init(encoding: SIMD32<UInt8>) { self.encoding = encoding }

  /// - Returns: nil unless there are 32 bytes, and for the identity, which is all zeros (RFC 9497, section 4.1). Nil
  ///   too if the highest bit is set, which libsodium 1.0.18 does not look at.
  package init?(bytes: some Collection<UInt8>) {
    guard let encoding = SIMD32(bytes: bytes), encoding != Self.identity.encoding, encoding[31] < 0x80 else {
      return nil
    }
    self.encoding = encoding
  }

  /// Always 32 bytes.
  package var bytes: [UInt8] { encoding.bytes }

  /// Sums begin with it. It is never read or written.
  static let identity = GroupElement(encoding: SIMD32(repeating: 0))
}

// MARK: - Computing

extension GroupElement {
  /// - Parameter uniform: 64 bytes.
  init(uniform: [UInt8]) {
    var encoding = SIMD32<UInt8>()
    // Every 64 bytes have an element: it does not fail.
    encoding.withMutableBytes { _ = crypto_core_ristretto255_from_hash($0, uniform) }
    self.encoding = encoding
  }

  /// Whether the bytes are the one encoding of an element.
  var isValid: Bool { encoding.withBytes { crypto_core_ristretto255_is_valid_point($0) } == 1 }

  /// In time that depends on nothing secret.
  /// - Parameter scalar: 32 bytes, below the order.
  /// - Returns: nil where these bytes are no element, or the product is the identity.
  func multiplied(by scalar: UnsafePointer<UInt8>) -> GroupElement? {
    Self.computed { result in encoding.withBytes { crypto_scalarmult_ristretto255(result, scalar, $0) } }
  }

  func multiplied(by scalar: Scalar) -> GroupElement? { scalar.encoding.withBytes { multiplied(by: $0) } }

  /// The product of `scalar` and the group's generator.
  /// - Returns: nil for 0.
  static func generator(multipliedBy scalar: UnsafePointer<UInt8>) -> GroupElement? {
    computed { crypto_scalarmult_ristretto255_base($0, scalar) }
  }

  /// - Returns: nil where either is no element.
  static func sum(_ a: GroupElement, _ b: GroupElement) -> GroupElement? {
    computed { result in
      a.encoding.withBytes { a in b.encoding.withBytes { crypto_core_ristretto255_add(result, a, $0) } }
    }
  }

  private static func computed(_ compute: (UnsafeMutablePointer<UInt8>) -> Int32) -> GroupElement? {
    var encoding = SIMD32<UInt8>()
    return encoding.withMutableBytes(compute) == 0 ? GroupElement(encoding: encoding) : nil
  }
}

// MARK: - Bytes

extension SIMD32<UInt8> {
  /// - Returns: nil unless there are 32 bytes.
  init?(bytes: some Collection<UInt8>) {
    guard bytes.count == 32 else { return nil }
    self.init()
    for (index, byte) in bytes.enumerated() { self[index] = byte }
  }

  var bytes: [UInt8] { indices.map { self[$0] } }

  func withBytes<Result>(_ body: (UnsafePointer<UInt8>) -> Result) -> Result {
    withUnsafePointer(to: self) { $0.withMemoryRebound(to: UInt8.self, capacity: 32, body) }
  }

  mutating func withMutableBytes<Result>(_ body: (UnsafeMutablePointer<UInt8>) -> Result) -> Result {
    withUnsafeMutablePointer(to: &self) { $0.withMemoryRebound(to: UInt8.self, capacity: 32, body) }
  }
}
