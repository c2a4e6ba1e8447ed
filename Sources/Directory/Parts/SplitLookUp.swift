import RelayCore

/// A look-up whose tokens lie in the order of the parts that hold them.
///
/// A look-up splits its own tokens, while they are in the processor's cache: a batch only joins what is packed.
struct SplitLookUp: Sendable {
  let telling: WantedContacts.Telling
  /// The tokens of the first part come first.
  let tokens: PackedTokens
  /// For each of `tokens`, its index in the look-up.
  private let origins: [Int32]
  /// The place in `tokens` at which each part begins; the last element is the end.
  private let begins: [Int]

  /// - Parameter count: of the parts.
  init(_ wanted: WantedContacts, among count: Int) {
    telling = wanted.telling
    var begins = [Int](repeating: 0, count: count + 1)
    let parts = DirectoryPartition.indices(of: wanted.tokens, among: count)
    for part in parts { begins[Int(part) + 1] += 1 }
    for part in 0..<count { begins[part + 1] += begins[part] }
    var origins: [Int32] = []
    tokens = PackedTokens(count: wanted.tokens.count) { memory in
      origins = [Int32](unsafeUninitializedCapacity: wanted.tokens.count) { origins, filled in
        Self.sort(wanted.tokens, by: parts, begins, into: memory, origins)
        filled = wanted.tokens.count
      }
    }
    (self.origins, self.begins) = (origins, begins)
  }

  /// - Parameters:
  ///   - parts: of each token.
  ///   - begins: counted from the same parts, so that every place lies within the memory.
  ///   - memory: of all packed tokens, not initialized yet. So are `origins`.
  private static func sort(
    _ tokens: [ContactToken], by parts: [UInt8], _ begins: [Int], into memory: UnsafeMutableRawBufferPointer,
    _ origins: UnsafeMutableBufferPointer<Int32>
  ) {
    var next = begins
    next.withUnsafeMutableBufferPointer { next in
      for (origin, (token, part)) in zip(tokens, parts).enumerated() {
        let place = next[Int(part)]
        next[Int(part)] = place &+ 1
        PackedTokens.write(token, at: place, to: memory)
        origins.initializeElement(at: place, to: Int32(truncatingIfNeeded: origin))
      }
    }
  }

  /// The places in `tokens` of those that the part holds.
  func range(of part: Int) -> Range<Int> { begins[part]..<begins[part + 1] }

  /// The index in the look-up of each token that the part holds.
  func origins(of part: Int) -> ArraySlice<Int32> { origins[range(of: part)] }
}
