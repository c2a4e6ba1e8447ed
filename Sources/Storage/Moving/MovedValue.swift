import Crypto

/// A value as both stores read it. Ordered as both order their keys, which hold no null.
enum MovedValue: Sendable, Hashable {
  case null
  case integer(Int64)
  case text(String)
  case bytes([UInt8])

  /// Adds it to `digest`, such that no two rows give the same bytes.
  func update(_ digest: inout SHA256) {
    switch self {
    case .null: digest.update(data: [0])
    case .integer(let value):
      digest.update(data: [1])
      withUnsafeBytes(of: value.bigEndian) { digest.update(bufferPointer: $0) }
    case .text(let text): Self.update(&digest, 2, Array(text.utf8))
    case .bytes(let bytes): Self.update(&digest, 3, bytes)
    }
  }

  private static func update(_ digest: inout SHA256, _ kind: UInt8, _ bytes: [UInt8]) {
    digest.update(data: [kind])
    withUnsafeBytes(of: UInt64(bytes.count).bigEndian) { digest.update(bufferPointer: $0) }
    digest.update(data: bytes)
  }
}

extension MovedValue: Comparable {
  static func < (a: MovedValue, b: MovedValue) -> Bool {
    switch (a, b) {
    case (.integer(let a), .integer(let b)): a < b
    case (.text(let a), .text(let b)): a.utf8.lexicographicallyPrecedes(b.utf8)
    case (.bytes(let a), .bytes(let b)): a.lexicographicallyPrecedes(b)
    default: false
    }
  }
}

/// A row as both stores read it, with what tells it apart from others of its table.
struct MovedRow: Sendable, Equatable {
  let key: [MovedValue]
  let values: [MovedValue]

  func isBehind(_ other: [MovedValue]) -> Bool { other.lexicographicallyPrecedes(key) }
}
