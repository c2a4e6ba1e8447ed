import Crypto
import RelayCore

/// The table's entries of one range, in 16 bytes: as `DirectoryDigest` says, entry by entry.
struct RangeDigest {
  private let names: [RelayName]
  private var count = 0
  private var checksum: UInt64 = 0
  private var text: [UInt8] = []

  /// - Parameter names: of relays 1 and up.
  init(names: [RelayName]) { self.names = names }

  var digest: DirectoryDigest { DirectoryDigest(count: count, checksum: checksum) }

  mutating func add(_ token: ContactToken, _ entry: TokenEntry) {
    text.removeAll(keepingCapacity: true)
    withUnsafeBytes(of: token.high.bigEndian) { text.append(contentsOf: $0) }
    withUnsafeBytes(of: token.low.bigEndian) { text.append(contentsOf: $0) }
    text.append(UInt8(ascii: entry.supportsSMS ? "s" : "-"))
    text.append(UInt8(ascii: entry.voice ? "v" : "-"))
    if entry.relay > 0 { text.append(contentsOf: names[entry.relay - 1].text.utf8) }
    count += 1
    checksum ^= SHA256.hash(data: text).prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
  }
}

extension TokenTable {
  /// Reads all of the memory, some 6 ms a million slots, and half as long again for the entries of the range. While
  /// nobody writes.
  /// - Parameter relays: those of the entries.
  func digest(of range: DirectoryRange, _ relays: RelayNumbers) -> DirectoryDigest {
    var digest = RangeDigest(names: relays.names)
    forEach { token, entry in if token.firstByte == range.firstByte { digest.add(token, entry) } }
    return digest.digest
  }

  func entries(in range: DirectoryRange) -> [ContactToken: TokenEntry] {
    var entries: [ContactToken: TokenEntry] = [:]
    forEach { token, entry in if token.firstByte == range.firstByte { entries[token] = entry } }
    return entries
  }
}
