import NIOCore
import RelayCore

/// Tokens as they go to parts of the directory: 10 bytes each, one behind the other.
struct PackedTokens: Sendable, Equatable {
  private var bytes = ByteBuffer()

  /// The bytes of a token. Not `ContactToken.byteCount`, which the compiler does not inline here: it would be called
  /// for each token.
  private static var size: Int { MemoryLayout<UInt64>.size + MemoryLayout<UInt16>.size }

  init() {}

  /// - Returns: nil unless `bytes` are those of `count` tokens.
  init?(_ bytes: ByteBuffer, count: Int) {
    guard bytes.readableBytes == Self.size * count else { return nil }
    self.bytes = bytes
  }

  /// - Parameters:
  ///   - count: of the tokens.
  ///   - fill: is given their memory, and writes each by `write`.
  init(count: Int, fill: (UnsafeMutableRawBufferPointer) -> Void) {
    bytes.writeWithUnsafeMutableBytes(minimumWritableBytes: Self.size * count) { raw in
      fill(raw)
      return Self.size * count
    }
  }

  /// - Parameter index: of the token among those of `memory`.
  @inline(__always)
  static func write(_ token: ContactToken, at index: Int, to memory: UnsafeMutableRawBufferPointer) {
    let offset = Self.size &* index
    memory.storeBytes(of: token.high.bigEndian, toByteOffset: offset, as: UInt64.self)
    memory.storeBytes(of: token.low.bigEndian, toByteOffset: offset &+ 8, as: UInt16.self)
  }

  var count: Int { bytes.readableBytes / Self.size }
  var isEmpty: Bool { bytes.readableBytes == 0 }

  mutating func reserve(_ count: Int) { bytes.reserveCapacity(Self.size * count) }

  /// - Parameter range: within the indices of `tokens`.
  mutating func append(_ tokens: PackedTokens, _ range: Range<Int>) {
    let size = Self.size
    bytes.writeBytes(tokens.bytes.readableBytesView.dropFirst(size * range.lowerBound).prefix(size * range.count))
  }

  func write(to buffer: inout ByteBuffer) { buffer.writeImmutableBuffer(bytes) }

  var unpacked: [ContactToken] {
    let count = count
    return bytes.withUnsafeReadableBytes { raw in
      [ContactToken](unsafeUninitializedCapacity: count) { tokens, filled in
        while filled < count {
          let offset = Self.size &* filled
          let high = UInt64(bigEndian: raw.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
          let low = UInt16(bigEndian: raw.loadUnaligned(fromByteOffset: offset &+ 8, as: UInt16.self))
          tokens.initializeElement(at: filled, to: ContactToken(high: high, low: low))
          filled &+= 1
        }
      }
    }
  }
}
