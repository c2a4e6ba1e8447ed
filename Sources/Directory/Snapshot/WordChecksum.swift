/// A checksum of 64 bits over words of 8 bytes, some gigabytes a second: it tells a file that was cut or altered by
/// accident, and not by somebody who knows how. Each word goes through two steps that can be undone, so that no change
/// of one word alone is ever missed, and any other with a chance of 2^-64.
struct WordChecksum: Sendable {
  private(set) var value: UInt64 = 0x9E37_79B9_7F4A_7C15

  /// - Parameter bytes: a multiple of 8.
  mutating func add(_ bytes: UnsafeRawBufferPointer) {
    precondition(bytes.count % 8 == 0)
    var value = value
    for offset in stride(from: 0, to: bytes.count, by: 8) {
      let word = UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
      value = (value ^ word) &* 0xD6E8_FEB8_6659_FD93
      value ^= value &>> 32
    }
    self.value = value
  }
}
