import RelayCore

/// Reads the rows of a binary `COPY` (PostgreSQL documentation, "COPY", "Binary Format") with the columns token, peer,
/// supports_sms, voice.
///
/// Nothing is allocated for a row: names of peers are known from the rows before, and tokens are opened many at a time.
struct DirectoryCopyParser {
  private struct Row {
    let relay: RelayName?
    let supportsSMS: Bool
    let voice: Bool
  }

  private var rows: [Row] = []
  /// The stored tokens of `rows`, one behind the other.
  private var stored: [UInt8] = []
  private var isBegun = false
  /// Whether the end was read that a whole copy has.
  private(set) var isEnded = false
  private var names = RelayNameCache()
  private let tokens: TokenSealer

  init(_ tokens: TokenSealer) { self.tokens = tokens }

  /// How many rows `takeEntries` has.
  var count: Int { rows.count }

  /// The rows that were read since the last time.
  /// - Throws: `.corrupted` where a token does not open.
  mutating func takeEntries() throws(StoreError) -> [DirectoryEntry] {
    defer {
      rows.removeAll(keepingCapacity: true)
      stored.removeAll(keepingCapacity: true)
    }
    let opened = try tokens.open(packed: stored)
    return zip(opened, rows).map { token, row in
      DirectoryEntry(token: token, relay: row.relay, supportsSMS: row.supportsSMS, voice: row.voice)
    }
  }

  /// Takes the rows of `piece`: the server sends whole ones.
  /// - Throws: `.corrupted` for anything else.
  mutating func read(_ piece: UnsafeRawBufferPointer) throws(StoreError) {
    var fields = CopyFields(bytes: piece)
    if !isBegun {
      try fields.skipHeader()
      isBegun = true
    }
    while !fields.isAtEnd {
      let columns: Int16 = try fields.integer()
      guard columns != -1 else {
        isEnded = true
        return
      }
      guard columns == 4 else { throw CopyFields.damage }
      let token = try fields.field()
      guard token.count == tokens.storedBytes else { throw CopyFields.damage }
      var relay: RelayName?
      if let name = try fields.optionalField() { relay = try names.name(name) }
      rows.append(Row(relay: relay, supportsSMS: try fields.boolean(), voice: try fields.boolean()))
      stored.append(contentsOf: token)
    }
  }
}

/// The bytes of one piece, read from the front.
private struct CopyFields {
  static let damage = StoreError.corrupted(reason: "a copy of the directory has another shape than it should")
  private static let signature: [UInt8] = [0x50, 0x47, 0x43, 0x4F, 0x50, 0x59, 0x0A, 0xFF, 0x0D, 0x0A, 0x00]

  let bytes: UnsafeRawBufferPointer
  private var offset = 0

  init(bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

  var isAtEnd: Bool { offset == bytes.count }

  /// The signature, flags (none that matters to us), and an extension of any length.
  mutating func skipHeader() throws(StoreError) {
    guard try take(Self.signature.count).elementsEqual(Self.signature) else { throw Self.damage }
    let _: Int32 = try integer()
    let extensionBytes: Int32 = try integer()
    guard extensionBytes >= 0 else { throw Self.damage }
    _ = try take(Int(extensionBytes))
  }

  mutating func integer<Value: FixedWidthInteger>() throws(StoreError) -> Value {
    Value(bigEndian: try take(MemoryLayout<Value>.size).loadUnaligned(as: Value.self))
  }

  /// - Returns: nil for NULL.
  mutating func optionalField() throws(StoreError) -> UnsafeRawBufferPointer? {
    let length: Int32 = try integer()
    guard length != -1 else { return nil }
    guard length >= 0 else { throw Self.damage }
    return try take(Int(length))
  }

  mutating func field() throws(StoreError) -> UnsafeRawBufferPointer {
    guard let field = try optionalField() else { throw Self.damage }
    return field
  }

  mutating func boolean() throws(StoreError) -> Bool {
    let field = try field()
    guard field.count == 1 else { throw Self.damage }
    return field[0] != 0
  }

  private mutating func take(_ count: Int) throws(StoreError) -> UnsafeRawBufferPointer {
    guard bytes.count - offset >= count else { throw Self.damage }
    defer { offset += count }
    return UnsafeRawBufferPointer(rebasing: bytes[offset..<offset + count])
  }
}

/// The names of the peers whose rows were read last. A row whose peer is another than that of the same place here
/// makes its name anew: right in any case, and quick for as many peers as there are.
private struct RelayNameCache {
  private var known = [Known?](repeating: nil, count: 256)

  private struct Known {
    let bytes: [UInt8]
    let name: RelayName
  }

  mutating func name(_ bytes: UnsafeRawBufferPointer) throws(StoreError) -> RelayName {
    // FNV-1a.
    var hash: UInt64 = 0xCBF2_9CE4_8422_2325
    for byte in bytes { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
    let place = Int(truncatingIfNeeded: (hash ^ hash >> 32) & 255)
    if let found = known[place], found.bytes.elementsEqual(bytes) { return found.name }
    guard let name = RelayName(String(decoding: bytes, as: UTF8.self)) else {
      throw .corrupted(reason: "a peer has a name that no relay writes")
    }
    known[place] = Known(bytes: Array(bytes), name: name)
    return name
  }
}
