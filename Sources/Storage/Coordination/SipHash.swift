/// SipHash-2-4 of contact tokens (Aumasson and Bernstein, 2012): who does not know the key cannot choose tokens that
/// meet.
struct SipHash {
  private let first: UInt64
  private let second: UInt64

  /// - Parameter key: the two halves of the key's 16 bytes, each little-endian.
  init(key: (UInt64, UInt64)) { (first, second) = key }

  /// The hash of the 10 bytes `high` and `low`, both as they stand in memory, little-endian.
  func hash(_ high: UInt64, _ low: UInt16) -> UInt64 {
    var state = State(first, second)
    state.take(high)
    // The remaining bytes, and the length in the last byte.
    state.take(UInt64(low) | 10 << 56)
    return state.finish()
  }

  private struct State {
    private var (v0, v1, v2, v3): (UInt64, UInt64, UInt64, UInt64)

    init(_ first: UInt64, _ second: UInt64) {
      v0 = first ^ 0x736F_6D65_7073_6575
      v1 = second ^ 0x646F_7261_6E64_6F6D
      v2 = first ^ 0x6C79_6765_6E65_7261
      v3 = second ^ 0x7465_6462_7974_6573
    }

    mutating func take(_ word: UInt64) {
      v3 ^= word
      for _ in 0..<2 { turn() }
      v0 ^= word
    }

    mutating func finish() -> UInt64 {
      v2 ^= 0xFF
      for _ in 0..<4 { turn() }
      return v0 ^ v1 ^ v2 ^ v3
    }

    private mutating func turn() {
      v0 = v0 &+ v1
      v1 = rotated(v1, 13) ^ v0
      v0 = rotated(v0, 32)
      v2 = v2 &+ v3
      v3 = rotated(v3, 16) ^ v2
      v0 = v0 &+ v3
      v3 = rotated(v3, 21) ^ v0
      v2 = v2 &+ v1
      v1 = rotated(v1, 17) ^ v2
      v2 = rotated(v2, 32)
    }

    private func rotated(_ word: UInt64, _ count: UInt64) -> UInt64 { word &<< count | word &>> (64 &- count) }
  }
}
