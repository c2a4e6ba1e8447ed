import RelayCore

/// The file of a directory, in little-endian. It has a head of 64 bytes, the tokens, the names, and a tail of 32
/// bytes. The tokens take 12 bytes each, as `TokenSlots` lays them out, ascending by place. The names are those of
/// relays 1 and up, each behind its length in one byte. Tokens and names are filled up with zeros to 8 bytes each.
///
/// If the store is sealed, all of that is encrypted (`SnapshotCipher`). The file then has a head of 48 bytes: a magic
/// number, the version and the salt. The file up to its tail follows in chunks, each with its tag; then the tail with
/// its tag.
enum SnapshotFormat {
  /// `RELAYDIR`.
  static let magic: UInt64 = 0x5249_4459_414C_4552
  static let version: UInt64 = 1
  /// `RELAYSEA`.
  static let sealedMagic: UInt64 = 0x4145_5359_414C_4552
  static let sealedVersion: UInt64 = 1
  static let headBytes = 64
  static let sealedHeadBytes = 16 + SnapshotCipher.saltBytes
  static let sealedTailBytes = tailBytes + SnapshotCipher.tagBytes
  static let tailBytes = 32
  static let entryBytes = 12

  /// - Returns: `count` and what fills it up to a multiple of 8.
  static func filled(_ count: Int) -> Int { (count + 7) & ~7 }

  /// - Parameter bytes: of an encrypted file.
  /// - Returns: of the same before it was encrypted; nil for what no such file has.
  static func plainBytes(ofSealed bytes: Int) -> Int? {
    let chunks = bytes - sealedHeadBytes - sealedTailBytes
    guard chunks >= 0 else { return nil }
    let (whole, rest) = chunks.quotientAndRemainder(dividingBy: SnapshotCipher.chunkBytes + SnapshotCipher.tagBytes)
    guard rest == 0 || rest > SnapshotCipher.tagBytes else { return nil }
    return chunks - (whole + (rest == 0 ? 0 : 1)) * SnapshotCipher.tagBytes + tailBytes
  }
}

/// The clear part of an encrypted file.
struct SealedHead: Sendable, Equatable {
  let salt: [UInt8]

  /// `sealedHeadBytes`.
  var bytes: [UInt8] {
    var bytes: [UInt8] = []
    bytes.append(littleEndian: SnapshotFormat.sealedMagic)
    bytes.append(littleEndian: SnapshotFormat.sealedVersion)
    return bytes + salt
  }

  init(salt: [UInt8]) { self.salt = salt }

  /// - Parameter bytes: the first of a file, `sealedHeadBytes` where it has as many.
  init(_ bytes: [UInt8]) throws(SnapshotFailure) {
    let words = bytes.words
    guard let magic = words.first, magic == SnapshotFormat.sealedMagic || magic == SnapshotFormat.magic else {
      throw .unusable("it is no directory")
    }
    guard magic == SnapshotFormat.sealedMagic else { throw .unusable("it is not encrypted, and the store is sealed") }
    guard bytes.count == SnapshotFormat.sealedHeadBytes else { throw .unusable("its end is missing") }
    guard words[1] == SnapshotFormat.sealedVersion else { throw .unusable("another version wrote it") }
    salt = Array(bytes[16...])
  }
}

/// The facts that a file states about its table.
struct SnapshotHead: Sendable, Equatable {
  /// The store that the table was read from: 16 bytes.
  let store: [UInt8]
  /// Everything before it is in the table.
  let place: DirectoryPlace
  /// The secret of the table's places. With the same secret the tokens come back in the order of their places.
  let secret: UInt64

  /// `headBytes`.
  var bytes: [UInt8] {
    var bytes: [UInt8] = []
    for word in [
      SnapshotFormat.magic, SnapshotFormat.version, UInt64(bitPattern: place.generation), place.revision,
      UInt64(bitPattern: place.position), secret,
    ] { bytes.append(littleEndian: word) }
    return bytes + store
  }

  init(store: [UInt8], place: DirectoryPlace, secret: UInt64) {
    self.store = store
    self.place = place
    self.secret = secret
  }

  /// - Parameter bytes: `headBytes`.
  init(_ bytes: [UInt8]) throws(SnapshotFailure) {
    let words = bytes.words
    if words.first == SnapshotFormat.sealedMagic { throw .unusable("it is encrypted, and the store is not sealed") }
    guard bytes.count == SnapshotFormat.headBytes, words[0] == SnapshotFormat.magic else {
      throw .unusable("it is no directory")
    }
    guard words[1] == SnapshotFormat.version else { throw .unusable("another version wrote it") }
    place = DirectoryPlace(
      generation: Int64(bitPattern: words[2]), revision: words[3], position: Int64(bitPattern: words[4]))
    secret = words[5]
    store = Array(bytes[48...])
  }
}

/// The end of the file, by which it is read.
struct SnapshotTail: Sendable, Equatable {
  let entries: Int
  let namesBytes: Int
  /// The checksum of everything before it.
  let checksum: UInt64

  /// The bytes before the checksum.
  var countedBytes: [UInt8] {
    var bytes: [UInt8] = []
    bytes.append(littleEndian: UInt64(entries))
    bytes.append(littleEndian: UInt64(namesBytes))
    return bytes
  }

  /// `tailBytes`.
  var bytes: [UInt8] {
    var bytes = countedBytes
    bytes.append(littleEndian: checksum)
    bytes.append(littleEndian: SnapshotFormat.magic)
    return bytes
  }

  init(entries: Int, namesBytes: Int, checksum: UInt64) {
    self.entries = entries
    self.namesBytes = namesBytes
    self.checksum = checksum
  }

  /// - Parameters:
  ///   - bytes: `tailBytes`.
  ///   - fileBytes: of the whole file: what the tail says must fit it exactly.
  init(_ bytes: [UInt8], fileBytes: Int) throws(SnapshotFailure) {
    let words = bytes.words
    guard bytes.count == SnapshotFormat.tailBytes, words[3] == SnapshotFormat.magic else {
      throw .unusable("its end is missing")
    }
    let room = fileBytes - SnapshotFormat.headBytes - SnapshotFormat.tailBytes
    guard let entries = Int(exactly: words[0]), let namesBytes = Int(exactly: words[1]),
      room >= 0, entries <= room / SnapshotFormat.entryBytes, namesBytes <= room,
      SnapshotFormat.filled(entries * SnapshotFormat.entryBytes) + SnapshotFormat.filled(namesBytes) == room
    else { throw .unusable("its parts do not make up its length") }
    self.init(entries: entries, namesBytes: namesBytes, checksum: words[2])
  }
}

/// Names as the file holds them.
enum SnapshotNames {
  static func encode(_ names: [RelayName]) -> [UInt8] {
    names.flatMap { [UInt8($0.text.utf8.count)] + $0.text.utf8 }
  }

  static func decode(_ bytes: some Collection<UInt8>) throws(SnapshotFailure) -> [RelayName] {
    var names: [RelayName] = []
    var rest = bytes[...]
    while let length = rest.popFirst() {
      let text = rest.prefix(Int(length))
      guard text.count == Int(length), names.count < TokenEntry.relayMax,
        let name = RelayName(String(decoding: text, as: UTF8.self))
      else { throw .unusable("a relay's name is none") }
      names.append(name)
      rest = rest.dropFirst(Int(length))
    }
    guard Set(names).count == names.count else { throw .unusable("a relay is named twice") }
    return names
  }
}

extension [UInt8] {
  mutating func append(littleEndian word: UInt64) {
    Swift.withUnsafeBytes(of: word.littleEndian) { append(contentsOf: $0) }
  }

  /// Whole words of 8 bytes, little-endian.
  fileprivate var words: [UInt64] {
    withUnsafeBytes { bytes in
      stride(from: 0, to: bytes.count & ~7, by: 8).map {
        UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: $0, as: UInt64.self))
      }
    }
  }
}

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
