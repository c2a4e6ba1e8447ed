/// The slots of a cluster of Redis (its specification, "Key distribution model").
///
/// All keys of one script must lie in one slot. A key lies where its hash tag does: the text between the first `{` and
/// the next `}`. A key without a tag, or with an empty one, lies where the whole of it does.
enum RedisSlot {
  static let count = 16_384

  static func of(_ key: String) -> Int {
    let bytes = key.utf8
    guard let open = bytes.firstIndex(of: UInt8(ascii: "{")) else { return Int(checksum(bytes)) % count }
    let rest = bytes[bytes.index(after: open)...]
    guard let close = rest.firstIndex(of: UInt8(ascii: "}")), close != rest.startIndex else {
      return Int(checksum(bytes)) % count
    }
    return Int(checksum(rest[..<close])) % count
  }

  /// A hash tag for all that belongs to `subject`: the same for the same subject, and short. It tells 16 bits of the
  /// subject's checksum.
  static func tag(of subject: some Sequence<UInt8>) -> String { "{\(String(checksum(subject), radix: 36))}" }

  /// CRC-16/XMODEM.
  static func checksum(_ bytes: some Sequence<UInt8>) -> UInt16 {
    var checksum: UInt16 = 0
    for byte in bytes { checksum = checksum << 8 ^ table[Int(UInt8(checksum >> 8) ^ byte)] }
    return checksum
  }

  private static let table: [UInt16] = (0..<256).map { index in
    (0..<8).reduce(UInt16(index) << 8) { rest, _ in rest & 0x8000 == 0 ? rest << 1 : rest << 1 ^ 0x1021 }
  }
}
