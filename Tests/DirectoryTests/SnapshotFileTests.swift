import Foundation
import Glibc
import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Directory

@Suite(.tags(.unit)) struct SnapshotFileTests {
  @Test(arguments: [0, 1, 2, 3, 1000, 70_001]) func `a table is read as it was written`(count: Int) throws {
    try SnapshotSite.with { site in
      let head = try site.write(count)
      let contents = try SnapshotFile.read(site.path, under: nil)
      #expect(contents.head == head)
      #expect(contents.names == site.relays.names)
      #expect(contents.table.count == count)
      #expect(contents.table.contents == site.table.contents)
      #expect(contents.table.byteCount <= site.table.byteCount * 2)
      let mode = try FileManager.default.attributesOfItem(atPath: site.path)[.posixPermissions] as? Int
      #expect(mode == 0o600)
      #expect(!FileManager.default.fileExists(atPath: site.path + ".new"))
      // In the place of the former one.
      let second = try site.write(count + 10)
      #expect(try SnapshotFile.read(site.path, under: nil).head == second)
    }
  }

  @Test func `a removed entry does not come back, and one added meanwhile may be there`() throws {
    try SnapshotSite.with { site in
      _ = try site.write(3000)
      let gone = site.table.removeAll(of: 2)
      #expect(!gone.isEmpty)
      try site.write()
      let table = try SnapshotFile.read(site.path, under: nil).table
      #expect(table.contents == site.table.contents)
      #expect(gone.allSatisfy { table.entry(of: $0) == nil })
    }
  }

  @Test func `a file that was cut anywhere is not used`() throws {
    try SnapshotSite.with { site in
      _ = try site.write(500)
      let whole = try Data(contentsOf: URL(fileURLWithPath: site.path))
      for length in [0, 1, 31, 32, 63, 64, 95, 96, 97, 1000, whole.count / 2, whole.count - 8, whole.count - 1] {
        try site.put(whole.prefix(length))
        #expect(throws: SnapshotFailure.self, "\(length)") { try SnapshotFile.read(site.path, under: nil) }
      }
      try site.put(whole + Data(count: 8))
      #expect(throws: SnapshotFailure.self) { try SnapshotFile.read(site.path, under: nil) }
      try site.put(whole)
      #expect(try SnapshotFile.read(site.path, under: nil).table.count == 500)
    }
  }

  @Test func `a file in which any byte is another is not used`() throws {
    try SnapshotSite.with { site in
      _ = try site.write(40)
      let whole = try Data(contentsOf: URL(fileURLWithPath: site.path))
      var random = SeededGenerator(seed: 3)
      for index in whole.indices {
        var altered = whole
        altered[index] ^= UInt8.random(in: 1...255, using: &random)
        try site.put(altered)
        #expect(throws: SnapshotFailure.self, "\(index)") { try SnapshotFile.read(site.path, under: nil) }
      }
    }
  }

  /// A length in the file is believed only as far as the file goes, whatever its checksum says.
  @Test func `lengths that the file does not have are refused before any memory is taken`() throws {
    try SnapshotSite.with { site in
      _ = try site.write(40)
      let whole = try Data(contentsOf: URL(fileURLWithPath: site.path))
      for count in [UInt64.max, UInt64(Int.max), 1 << 40, 41, 39] {
        for offset in [32, 24] {
          var altered = whole
          let place = altered.count - offset
          withUnsafeBytes(of: count.littleEndian) { altered.replaceSubrange(place..<place + 8, with: $0) }
          try site.put(altered)
          #expect(throws: SnapshotFailure.self) { try SnapshotFile.read(site.path, under: nil) }
        }
      }
    }
  }

  @Test func `a file of another version, and one that others may write, are refused by name`() throws {
    try SnapshotSite.with { site in
      #expect(throws: SnapshotFailure.missing) { try SnapshotFile.read(site.path, under: nil) }
      _ = try site.write(5)
      var other = try Data(contentsOf: URL(fileURLWithPath: site.path))
      other[8] = 2
      try site.put(other)
      #expect(throws: SnapshotFailure.unusable("another version wrote it")) {
        try SnapshotFile.read(site.path, under: nil)
      }
      _ = try site.write(5)
      #expect(chmod(site.path, 0o622) == 0)
      #expect(throws: SnapshotFailure.unusable("others than its owner may write it")) {
        try SnapshotFile.read(site.path, under: nil)
      }
    }
  }

  @Test func `a path that is no file is refused at once, a pipe without a writer too`() throws {
    try SnapshotSite.with { site in
      _ = try site.write(5)
      #expect(unlink(site.path) == 0 && mkfifo(site.path, 0o600) == 0)
      #expect(throws: SnapshotFailure.unusable("others than its owner may write it")) {
        try SnapshotFile.read(site.path, under: nil)
      }
    }
  }

  @Test func `a file that was overtaken while it was written leaves the former one in its place`() throws {
    try SnapshotSite.with { site in
      let first = try site.write(5)
      #expect(throws: SnapshotFailure.overtaken) { try site.writeOvertaken() }
      #expect(try SnapshotFile.read(site.path, under: nil).head == first)
      #expect(!FileManager.default.fileExists(atPath: site.path + ".new"))
    }
  }

  @Test func `a second writer leaves the file alone, and a killed writer's leftover is in nobody's way`()
    throws
  {
    try SnapshotSite.with { site in
      let first = try site.write(5)
      var writer: SnapshotWriter? = try SnapshotWriter(place: site.path, under: nil)
      try writer?.append([UInt8](repeating: 9, count: 64))
      #expect(throws: SnapshotFailure.busy) { try site.write() }
      #expect(try SnapshotFile.read(site.path, under: nil).head == first)
      // As the end of a process does, however it comes.
      writer = nil
      #expect(FileManager.default.fileExists(atPath: site.path + ".new"))
      let second = try site.write(6)
      #expect(try SnapshotFile.read(site.path, under: nil).head == second)
      #expect(!FileManager.default.fileExists(atPath: site.path + ".new"))
    }
  }

  @Test func `a folder that cannot be made is a failure, and no end`() throws {
    try SnapshotSite.with { site in
      try site.put(Data("a file".utf8))
      let path = site.path + "/folder/directory.snapshot"
      #expect(throws: SnapshotFailure.self) {
        try SnapshotFile.write(site.table, site.head(), site.relays, to: path, under: nil)
      }
      #expect(throws: SnapshotFailure.self) { try SnapshotFile.read(path, under: nil) }
    }
  }

  /// Several writers and a writer of the table at one time: the file is whole at any moment.
  @Test func `a reader finds a whole file while processes write it`() async throws {
    try await SnapshotSite.with { site in
      _ = try site.write(3000)
      let staying = site.table.contents
      try await withThrowingTaskGroup(of: Void.self) { group in
        for _ in 0..<2 {
          group.addTask {
            for _ in 0..<10 {
              try site.writeUnlessBusy()
              await Task.yield()
            }
          }
        }
        group.addTask {
          var random = SeededGenerator(seed: 8)
          for _ in 0..<100 {
            try site.table.apply(
              (0..<50).map { _ in TokenChange(.any(using: &random), .any(relays: 3, using: &random)) })
            await Task.yield()
          }
        }
        group.addTask {
          for _ in 0..<10 {
            let read = try SnapshotFile.read(site.path, under: nil).table
            #expect(staying.allSatisfy { read.entry(of: $0.key) == $0.value })
            await Task.yield()
          }
        }
        try await group.waitForAll()
      }
    }
  }
}

@Suite(.tags(.unit)) struct WordChecksumTests {
  /// FNV's and Murmur's weakness: words that change together.
  @Test func `another order of words, and words of zeros, show`() {
    func sum(_ words: [UInt64]) -> UInt64 {
      var checksum = WordChecksum()
      words.withUnsafeBytes { checksum.add($0) }
      return checksum.value
    }
    let sums = [[], [0], [0, 0], [1], [0, 1], [1, 0], [1, 1], [1 << 63], [1 << 63, 1 << 63]].map(sum)
    #expect(Set(sums).count == sums.count)
  }

  @Test func `it does not depend on how the bytes come`() {
    let bytes = (0..<800).map { UInt8(truncatingIfNeeded: $0 &* 37) }
    var (whole, parts) = (WordChecksum(), WordChecksum())
    bytes.withUnsafeBytes { whole.add($0) }
    for first in stride(from: 0, to: 800, by: 80) {
      Array(bytes[first..<first + 80]).withUnsafeBytes { parts.add($0) }
    }
    #expect(whole.value == parts.value)
  }
}

/// A table, relays, and a folder of its own for their file.
struct SnapshotSite: Sendable {
  let path: String
  /// Encrypts the file.
  let key: SecretBytes?
  let relays = RelayNumbers()
  let table: TokenTable

  static func with<Result>(
    isolation: isolated (any Actor)? = #isolation, _ body: (SnapshotSite) async throws -> Result
  ) async throws -> Result {
    let folder = try makeFolder()
    // A leftover in the temporary folder must not hide why the test failed.
    defer { try? FileManager.default.removeItem(atPath: folder) }
    return try await body(SnapshotSite(folder))
  }

  static func with(under key: SecretBytes? = nil, _ body: (SnapshotSite) throws -> Void) throws {
    let folder = try makeFolder()
    defer { try? FileManager.default.removeItem(atPath: folder) }
    try body(SnapshotSite(folder, under: key))
  }

  private static func makeFolder() throws -> String {
    let folder = FileManager.default.temporaryDirectory.appending(path: "relay-snapshot-\(UUID().uuidString)").path
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    return folder
  }

  private init(_ folder: String, under key: SecretBytes? = nil) throws {
    self.key = key
    // Folders that are missing are made.
    path = folder + "/some/where/directory.snapshot"
    table = try TokenTable()
    for text in ["alpha", "beta", "gamma"] {
      let name: RelayName = try #require(RelayName(text))
      _ = relays.number(of: name)
    }
  }

  func head() -> SnapshotHead {
    SnapshotHead(
      store: Array(1...16), place: DirectoryPlace(generation: -3, revision: .random(in: 0 ... .max), position: -1),
      secret: table.secret)
  }

  /// Fills the table up to `count` tokens and writes it.
  func write(_ count: Int) throws -> SnapshotHead {
    var random = SeededGenerator(seed: UInt64(count))
    while table.count < count { try table.apply([TokenChange(.any(using: &random), .any(relays: 3, using: &random))]) }
    return try write()
  }

  @discardableResult
  func write() throws(SnapshotFailure) -> SnapshotHead {
    let (head, count) = (head(), table.count)
    let bytes = try SnapshotFile.write(table, head, relays, to: path, under: key)
    #expect(bytes > count * SnapshotFormat.entryBytes)
    return head
  }

  func writeOvertaken() throws(SnapshotFailure) {
    _ = try SnapshotFile.write(table, head(), relays, to: path, under: key) { false }
  }

  func writeUnlessBusy() throws(SnapshotFailure) {
    do throws(SnapshotFailure) {
      try write()
    } catch {
      guard error == .busy else { throw error }
    }
  }

  /// Puts other bytes into the file's place.
  func put(_ bytes: Data) throws {
    try FileManager.default.createDirectory(
      atPath: (path as NSString).deletingLastPathComponent, withIntermediateDirectories: true)
    try bytes.write(to: URL(fileURLWithPath: path))
    #expect(chmod(path, 0o600) == 0)
  }
}

extension TokenTable {
  var contents: [ContactToken: TokenEntry] {
    var all: [ContactToken: TokenEntry] = [:]
    forEach { all[$0] = $1 }
    return all
  }
}

extension ContactToken {
  static func any(using random: inout SeededGenerator) -> ContactToken {
    ContactToken(high: random.next(), low: UInt16(truncatingIfNeeded: random.next()))
  }
}

extension TokenEntry {
  static func any(relays: Int, using random: inout SeededGenerator) -> TokenEntry {
    TokenEntry(
      relay: .random(in: 0...relays, using: &random), supportsSMS: .random(using: &random),
      voice: .random(using: &random))
  }
}
