import Glibc
import RelayCore

/// The file that the directory is kept in between two starts. Whole or not at all: it is written beside its place,
/// forced to disk, and moved there. Only its owner may read it.
///
/// Several processes may share one path: who comes while another writes leaves it at that.
enum SnapshotFile {
  /// Tokens that are copied at a time: 768 KiB, whole words of the checksum.
  private static let partEntries = 1 << 16

  // MARK: Writing

  /// Writes `table` beside its writer: each token as it is at some moment of the writing.
  /// - Parameters:
  ///   - head: its place was reached before the call.
  ///   - relays: names every relay of the table's entries.
  ///   - key: as `DirectoryFeedStore.directoryFileKey`: with one the file is encrypted.
  ///   - isValid: asked when everything is written; where it is not so, `.overtaken` is thrown and nothing is left
  ///     behind.
  /// - Returns: how many bytes the file has. Blocks.
  static func write(
    _ table: TokenTable, _ head: SnapshotHead, _ relays: RelayNumbers, to path: String,
    under key: SecretBytes?, where isValid: () -> Bool = { true }
  ) throws(SnapshotFailure) -> Int {
    try makeFolder(of: path)
    let file = try SnapshotWriter(place: path, under: key)
    do throws(SnapshotFailure) {
      try file.append(head.bytes)
      var scan = table.scan()
      var part: [UInt8] = []
      part.reserveCapacity(partEntries * SnapshotFormat.entryBytes)
      var entries = 0
      while true {
        let isMore = scan.next(partEntries) { part.append($0, $1) }
        guard isMore else { break }
        // An incomplete word waits for the next part.
        let whole = part.count - part.count % (2 * SnapshotFormat.entryBytes)
        entries += whole / SnapshotFormat.entryBytes
        try file.append(part[..<whole])
        part.removeFirst(whole)
      }
      entries += part.count / SnapshotFormat.entryBytes
      try file.appendFilled(part)
      // After the tokens: a relay has its number before its first token is written.
      let names = SnapshotNames.encode(relays.names)
      try file.appendFilled(names)
      try file.appendTail(entries: entries, namesBytes: names.count)
      guard isValid() else { throw .overtaken }
      try file.finish(as: path)
      return file.bytes
    } catch {
      file.discard()
      throw error
    }
  }

  /// Makes the folders that lead to `path`, for the owner alone, where they are missing.
  private static func makeFolder(of path: String) throws(SnapshotFailure) {
    var partial = path.hasPrefix("/") ? "/" : ""
    for component in path.split(separator: "/").dropLast() {
      partial += component + "/"
      if mkdir(partial, 0o700) != 0, errno != EEXIST { throw .last("mkdir") }
    }
  }

  /// Removes the file at `path`, where there is one.
  static func remove(_ path: String) { unlink(path) }

  // MARK: Reading

  static func exists(_ path: String) -> Bool { access(path, F_OK) == 0 }

  struct Contents: Sendable {
    let table: TokenTable
    let head: SnapshotHead
    /// The names of relays 1 and up.
    let names: [RelayName]
    /// As `SnapshotReader.age`.
    let age: Duration?
  }

  /// Reads the file at `path`. It is believed nothing that does not fit its length and its checksum. Blocks.
  /// - Parameter key: with one, an encrypted file alone is read; without, none is.
  static func read(_ path: String, under key: SecretBytes?) throws(SnapshotFailure) -> Contents {
    let file = try SnapshotReader(path: path, under: key)
    let head = try SnapshotHead(file.next(SnapshotFormat.headBytes))
    let tail = try SnapshotTail(file.tail(), fileBytes: file.bytes)
    let table = try makeTable(tail.entries, head)
    var relayMax = 0
    var left = tail.entries
    while left > 0 {
      let count = min(left, partEntries)
      let bytes = try file.nextFilled(count * SnapshotFormat.entryBytes)
      try add(bytes, count, to: table, &relayMax)
      left -= count
    }
    let names = try SnapshotNames.decode(file.nextFilled(tail.namesBytes).prefix(tail.namesBytes))
    file.count(tail)
    guard file.checksum == tail.checksum else { throw .unusable("its checksum is wrong") }
    guard relayMax <= names.count, table.count == tail.entries else { throw .unusable("its entries are none") }
    return Contents(table: table, head: head, names: names, age: file.age)
  }

  private static func makeTable(_ entries: Int, _ head: SnapshotHead) throws(SnapshotFailure) -> TokenTable {
    do throws(TokenTable.OutOfMemory) {
      return try TokenTable(roomFor: entries, secret: head.secret)
    } catch {
      throw .memory(error.bytes)
    }
  }

  private static func add(
    _ bytes: [UInt8], _ count: Int, to table: TokenTable, _ relayMax: inout Int
  ) throws(SnapshotFailure) {
    var changes: [TokenChange] = []
    changes.reserveCapacity(count)
    for index in 0..<count {
      guard let change = bytes.tokenChange(at: index * SnapshotFormat.entryBytes) else {
        throw .unusable("its entries are none")
      }
      relayMax = max(relayMax, change.entry?.relay ?? 0)
      changes.append(change)
    }
    do throws(TokenTable.OutOfMemory) {
      try table.apply(changes)
    } catch {
      throw .memory(error.bytes)
    }
  }
}

extension [UInt8] {
  /// As `TokenSlots` lays it out.
  fileprivate mutating func append(_ token: ContactToken, _ entry: TokenEntry) {
    Swift.withUnsafeBytes(of: (UInt32(token.low) << 16 | UInt32(entry.bits)).littleEndian) { append(contentsOf: $0) }
    Swift.withUnsafeBytes(of: token.high.littleEndian) { append(contentsOf: $0) }
  }

  /// - Returns: nil for what no table holds.
  fileprivate func tokenChange(at offset: Int) -> TokenChange? {
    withUnsafeBytes { bytes in
      let word = UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt32.self))
      let high = UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: offset + 4, as: UInt64.self))
      let entry = TokenEntry(bits: UInt16(truncatingIfNeeded: word))
      guard entry.bits == UInt16(truncatingIfNeeded: word) else { return nil }
      return TokenChange(ContactToken(high: high, low: UInt16(truncatingIfNeeded: word >> 16)), entry)
    }
  }
}
