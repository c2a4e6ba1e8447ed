import Foundation
import RelayCore
import TestTags
import Testing

@testable import Directory

/// The file of a directory whose store is sealed.
@Suite(.tags(.unit)) struct SealedSnapshotTests {
  private static let key = SecretBytes([UInt8](repeating: 5, count: 32))
  private static let otherKey = SecretBytes([UInt8](repeating: 6, count: 32))

  private static func bytes(of site: SnapshotSite) throws -> Data {
    try Data(contentsOf: URL(fileURLWithPath: site.path))
  }

  private static func isRefused(_ site: SnapshotSite, under key: SecretBytes?) -> SnapshotFailure? {
    do throws(SnapshotFailure) {
      _ = try SnapshotFile.read(site.path, under: key)
      return nil
    } catch {
      return error
    }
  }

  /// One chunk holds some 87,000 tokens.
  @Test(arguments: [0, 1, 3, 1000, 87_376, 200_001]) func `a table is read as it was written`(count: Int) throws {
    try SnapshotSite.with(under: Self.key) { site in
      let head = try site.write(count)
      let contents = try SnapshotFile.read(site.path, under: Self.key)
      #expect(contents.head == head)
      #expect(contents.names == site.relays.names)
      #expect(contents.table.count == count)
      #expect(contents.table.contents == site.table.contents)
    }
  }

  @Test func `nothing of it can be read, and no two files are alike`() throws {
    try SnapshotSite.with(under: Self.key) { site in
      _ = try site.write(2000)
      let (first, tokens) = (try Self.bytes(of: site), site.table.contents.keys)
      try site.write()
      let second = try Self.bytes(of: site)
      for file in [first, second] {
        for token in tokens {
          // As the table lays it out, and as it is written elsewhere.
          let word = withUnsafeBytes(of: token.high.littleEndian) { Data($0) }
          #expect(file.range(of: word) == nil && file.range(of: Data(token.bytes.prefix(8))) == nil)
        }
        for name in site.relays.names { #expect(file.range(of: Data(name.text.utf8)) == nil) }
      }
      #expect(first.dropFirst(16) != second.dropFirst(16))
    }
  }

  @Test func `a file that was cut or altered anywhere is not used`() throws {
    try SnapshotSite.with(under: Self.key) { site in
      _ = try site.write(40)
      let whole = try Self.bytes(of: site)
      for index in whole.indices {
        var altered = whole
        altered[index] ^= 0x40
        try site.put(altered)
        #expect(Self.isRefused(site, under: Self.key) != nil, "\(index)")
      }
      for length in [
        0, 7, 8, 15, 16, 47, 48, 63, 64, 95, 96, 97, 112, whole.count / 2, whole.count - 48, whole.count - 1,
      ] {
        try site.put(whole.prefix(length))
        #expect(Self.isRefused(site, under: Self.key) != nil, "\(length)")
      }
      try site.put(whole + Data(count: 16))
      #expect(Self.isRefused(site, under: Self.key) != nil)
      try site.put(whole)
      #expect(Self.isRefused(site, under: Self.key) == nil)
    }
  }

  @Test func `chunks in another order, or of another file, are not used`() throws {
    try SnapshotSite.with(under: Self.key) { site in
      _ = try site.write(200_001)
      let chunk = SnapshotCipher.chunkBytes + SnapshotCipher.tagBytes
      let first = try Self.bytes(of: site)
      let (head, one, two) = (first.prefix(48), first[48..<48 + chunk], first[(48 + chunk)..<(48 + 2 * chunk)])
      try site.put(head + two + one + first.dropFirst(48 + 2 * chunk))
      #expect(Self.isRefused(site, under: Self.key) == .unusable("it was altered, or encrypted under another key"))
      try site.write()
      let second = try Self.bytes(of: site)
      try site.put(second.prefix(48) + one + second.dropFirst(48 + chunk))
      #expect(Self.isRefused(site, under: Self.key) == .unusable("it was altered, or encrypted under another key"))
    }
  }

  @Test func `a file that is not encrypted as the store wants it is not used`() throws {
    try SnapshotSite.with(under: Self.key) { site in
      _ = try site.write(10)
      #expect(Self.isRefused(site, under: Self.otherKey) == .unusable("it was altered, or encrypted under another key"))
      #expect(Self.isRefused(site, under: nil) == .unusable("it is encrypted, and the store is not sealed"))
    }
    try SnapshotSite.with { site in
      _ = try site.write(10)
      #expect(Self.isRefused(site, under: Self.key) == .unusable("it is not encrypted, and the store is sealed"))
      #expect(Self.isRefused(site, under: nil) == nil)
    }
  }

  @Test func `the length of an encrypted file says how long it was before, or that there is none`() {
    for count in [64, 1000, SnapshotCipher.chunkBytes, SnapshotCipher.chunkBytes + 8, 3 * SnapshotCipher.chunkBytes] {
      let chunks = (count + SnapshotCipher.chunkBytes - 1) / SnapshotCipher.chunkBytes
      let sealed = 48 + count + 16 * chunks + 48
      #expect(SnapshotFormat.plainBytes(ofSealed: sealed) == count + SnapshotFormat.tailBytes)
    }
    for bytes in [0, 48, 95, 97, 112] { #expect(SnapshotFormat.plainBytes(ofSealed: bytes) == nil) }
  }
}
