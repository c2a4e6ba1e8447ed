import Crypto
import Foundation
import RelayCore

extension DirectoryDigest {
  /// - Parameter entries: at most one a token.
  init(of entries: [DirectoryEntry]) {
    var checksum: UInt64 = 0
    var bytes = Data()
    for entry in entries {
      bytes.removeAll(keepingCapacity: true)
      bytes.append(contentsOf: entry.token.bytes)
      bytes.append(UInt8(ascii: entry.supportsSMS ? "s" : "-"))
      bytes.append(UInt8(ascii: entry.voice ? "v" : "-"))
      if let relay = entry.relay { bytes.append(contentsOf: relay.text.utf8) }
      checksum ^= SHA256.hash(data: bytes).prefix(8).reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
    }
    self.init(count: entries.count, checksum: checksum)
  }
}
