/// One part of a sketch: a Bloom filter of 16 bits a contact, of which each sets 8. Full, it takes one new contact of
/// 1,700 for one that it holds.
struct ContactFilter: Sendable, Equatable {
  static let capacityMin = 128
  static let capacityMax = 16_384
  /// Contacts in one word of 64 bits.
  private static let contactsPerWord = 4
  private static let probes: UInt64 = 8

  /// A power of two.
  let capacity: Int
  private(set) var held = 0
  private var bits: [UInt64]

  /// - Parameter contacts: how many may come; a filter has room for `capacityMin` at least and `capacityMax` at most.
  init(holding contacts: Int) {
    var capacity = Self.capacityMin
    while capacity < min(contacts, Self.capacityMax) { capacity *= 2 }
    self.capacity = capacity
    bits = Array(repeating: 0, count: capacity / Self.contactsPerWord)
  }

  var isFull: Bool { held >= capacity }

  func contains(_ hash: UInt64) -> Bool {
    let mask = UInt64(bits.count * 64 - 1)
    let (start, step) = Self.walk(hash)
    return bits.withUnsafeBufferPointer { bits in
      var place = start
      for _ in 0..<Self.probes {
        let bit = place & mask
        guard bits[Int(bit >> 6)] & 1 << (bit & 63) != 0 else { return false }
        place &+= step
      }
      return true
    }
  }

  mutating func insert(_ hash: UInt64) {
    let mask = UInt64(bits.count * 64 - 1)
    let (start, step) = Self.walk(hash)
    for probe in 0..<Self.probes {
      let bit = (start &+ probe &* step) & mask
      bits[Int(bit >> 6)] |= 1 << (bit & 63)
    }
    held += 1
  }

  /// Two hashes make all of them. An odd step never meets itself.
  private static func walk(_ hash: UInt64) -> (start: UInt64, step: UInt64) { (hash & 0xFFFF_FFFF, hash >> 32 | 1) }
}

// MARK: - As bytes

extension ContactFilter {
  private static let headerBytes = 8
  var byteCount: Int { Self.headerBytes + bits.count * 8 }

  /// Little-endian: how many it has room for and how many it holds, 4 bytes each; then the bits.
  func append(to bytes: inout [UInt8]) {
    bytes.append(littleEndian: UInt64(capacity) | UInt64(held) << 32)
    for word in bits { bytes.append(littleEndian: word) }
  }

  /// - Returns: nil for what `append` does not write.
  init?(_ bytes: [UInt8], at offset: Int) {
    guard bytes.count - offset >= Self.headerBytes else { return nil }
    let header = bytes.littleEndian(at: offset)
    let capacity = Int(header & 0xFFFF_FFFF)
    held = Int(header >> 32)
    guard (Self.capacityMin...Self.capacityMax).contains(capacity), capacity.nonzeroBitCount == 1, held <= capacity,
      bytes.count - offset - Self.headerBytes >= capacity / Self.contactsPerWord * 8
    else { return nil }
    self.capacity = capacity
    let start = offset + Self.headerBytes
    bits = (0..<capacity / Self.contactsPerWord).map { bytes.littleEndian(at: start + 8 * $0) }
  }
}

extension [UInt8] {
  mutating func append(littleEndian word: UInt64) {
    Swift.withUnsafeBytes(of: word.littleEndian) { append(contentsOf: $0) }
  }

  /// - Parameter offset: 8 bytes before the end at most.
  func littleEndian(at offset: Int) -> UInt64 {
    withUnsafeBytes { UInt64(littleEndian: $0.loadUnaligned(fromByteOffset: offset, as: UInt64.self)) }
  }
}
