import CSodium

/// The suite ristretto255-SHA512 of RFC 9497 (section 4.1) in the verifiable mode: its hashes and their tags.
enum Suite {
  /// Section 3.1, `CreateContextString`.
  private static let context = Array("OPRFV1-".utf8) + [1] + Array("-ristretto255-SHA512".utf8)
  private static let groupTag = Array("HashToGroup-".utf8) + context
  private static let scalarTag = Array("HashToScalar-".utf8) + context
  private static let keyTag = Array("DeriveKeyPair".utf8) + context
  private static let seedTag = Array("Seed-".utf8) + context

  /// SHA-512.
  static func hash(_ message: [UInt8]) -> [UInt8] {
    var digest = [UInt8](repeating: 0, count: 64)
    crypto_hash_sha512(&digest, message, UInt64(message.count))
    return digest
  }

  static func element(of input: [UInt8]) -> GroupElement { GroupElement(uniform: expand(input, groupTag)) }

  static func scalar(of message: [UInt8]) -> Scalar { Scalar(wide: expand(message, scalarTag)) }

  /// `expand_message_xmd` of RFC 9380 (section 5.3.1) with SHA-512, for 64 bytes: one block. A message may be secret:
  /// no copy of it is left.
  private static func expand(_ message: [UInt8], _ tag: [UInt8]) -> [UInt8] {
    let end = tag + [UInt8(tag.count)]
    var input: [UInt8] = []
    input.reserveCapacity(128 + message.count + 3 + end.count)
    for part in [zeros, message, [0, 64, 0], end] { input.append(contentsOf: part) }
    var digest = hash(input)
    wipe(&input)
    input.replaceSubrange(0..., with: digest)
    wipe(&digest)
    input.append(1)
    input.append(contentsOf: end)
    defer { wipe(&input) }
    return hash(input)
  }

  /// A block of SHA-512.
  private static let zeros = [UInt8](repeating: 0, count: 128)

  /// Section 3.2.1, `DeriveKeyPair`.
  /// - Returns: nil where no counter leads to a key, which happens to nobody.
  static func key(seed: [UInt8], info: [UInt8]) -> SecretScalars? {
    let end = prefixed(info)
    var input: [UInt8] = []
    input.reserveCapacity(seed.count + end.count + 1)
    for part in [seed, end, [0]] { input.append(contentsOf: part) }
    defer { wipe(&input) }
    for counter in UInt8.min...UInt8.max {
      input[input.count - 1] = counter
      var wide = expand(input, keyTag)
      defer { wipe(&wide) }
      let key = SecretScalars.reduced(wide)
      if !key.isZero(0) { return key }
    }
    return nil
  }

  /// The output for `input`, whose element times the key is `element`: section 3.3.1, the end of `Finalize`.
  static func output(of input: [UInt8], _ element: GroupElement) -> [UInt8] {
    hash(prefixed(input) + prefixed(element.bytes) + Array("Finalize".utf8))
  }

  /// The seed of a batch's weights: section 2.2.1, `ComputeComposites`.
  static func seed(under key: GroupElement) -> [UInt8] { hash(prefixed(key.bytes) + prefixed(seedTag)) }

  /// The weight of a batch's element at `index`, below 65,536.
  static func weight(_ seed: [UInt8], _ index: Int, _ element: GroupElement, _ evaluated: GroupElement) -> Scalar {
    scalar(
      of: prefixed(seed) + [UInt8(index >> 8), UInt8(index & 0xFF)] + prefixed(element.bytes)
        + prefixed(evaluated.bytes) + Array("Composite".utf8))
  }

  /// The challenge of a proof over `elements`, the public key first: section 2.2.1, `GenerateProof`.
  static func challenge(_ elements: [GroupElement]) -> Scalar {
    scalar(of: elements.flatMap { prefixed($0.bytes) } + Array("Challenge".utf8))
  }

  /// With its length, of two bytes, before it.
  private static func prefixed(_ bytes: [UInt8]) -> [UInt8] {
    [UInt8(bytes.count >> 8), UInt8(bytes.count & 0xFF)] + bytes
  }

  /// Overwrites bytes that nobody else may know. They must not be shared.
  static func wipe(_ bytes: inout [UInt8]) {
    bytes.withUnsafeMutableBytes { sodium_memzero($0.baseAddress, $0.count) }
  }
}

/// The system's library that computes, as this process has it.
package enum SodiumLibrary {
  package static var version: String { String(cString: sodium_version_string()) }
}
