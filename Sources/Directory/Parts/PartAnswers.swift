import NIOCore
import RelayCore

/// The answer of a process that holds a part of the directory to `PartQuestions`. Big-endian: the version, the part's
/// number and count, and 0, a byte each; 8 bytes each for generation and revision of the place that its table had
/// reached before it looked, and for the entries of its table; the count of names in 2 bytes, and each name behind
/// its length in one byte; for each question a byte, 1 if the changes are known; then 2 bytes for each token.
///
/// The two bytes of a token are 0 if it is unknown. Else their bits are those of `TokenEntry`, whose relay is the
/// number of a name, from 1. The bit 0x4000 says that the token may have changed; of an unknown one it stands alone.
struct PartAnswers: Sendable, Equatable {
  /// A token's two bytes.
  struct Code: Sendable, Equatable {
    let bits: UInt16

    static let unknown = Code(bits: 0)
    private static let changedBit: UInt16 = 0x4000

    init(bits: UInt16) { self.bits = bits }

    init(_ entry: TokenEntry?, isChanged: Bool) {
      bits = (entry?.bits ?? 0) | (isChanged ? Self.changedBit : 0)
    }

    /// nil: the token is unknown.
    var entry: TokenEntry? {
      let known = bits & ~Self.changedBit
      return known == 0 ? nil : TokenEntry(bits: known)
    }
    /// The same, and the token may have changed.
    var changed: Code { Code(bits: bits | Self.changedBit) }
    var isChanged: Bool { bits & Self.changedBit != 0 }
    /// Whether `bits` are those of a token, of one of `relayCount` relays or of the answering one.
    func isCode(among relayCount: Int) -> Bool {
      let known = bits & ~Self.changedBit
      return known == 0 || TokenEntry.isEntry(known) && TokenEntry(bits: known).relay <= relayCount
    }
  }

  let part: DirectoryPartition
  let place: DirectoryPlace
  /// How many contacts the process holds.
  let entries: Int
  /// The relays 1 and up of `codes`.
  let names: [RelayName]
  /// For each question, whether it is known which tokens have changed.
  let areChangesKnown: [Bool]
  /// Of the tokens of all questions, in their order.
  let codes: [Code]

  /// An answer has at most so many bytes.
  static let bytesMax =
    headBytes + TokenEntry.relayMax * 64 + PartQuestions.questionsMax + 2 * PartQuestions.tokensMax
  private static let headBytes = 30
  /// More than there are numbers, which have 15 digits at most. So the sum over all parts is no overflow.
  private static let entriesMax = 1 << 50

  // MARK: Writing

  var bytes: ByteBuffer {
    var buffer = ByteBuffer()
    buffer.reserveCapacity(Self.headBytes + 64 * names.count + areChangesKnown.count + 2 * codes.count)
    buffer.writeMultipleIntegers(PartQuestions.version, UInt8(part.number), UInt8(part.count), UInt8(0))
    buffer.writeMultipleIntegers(place.generation, place.revision, UInt64(entries), UInt16(names.count))
    for name in names {
      buffer.writeInteger(UInt8(name.text.utf8.count))
      buffer.writeString(name.text)
    }
    for isKnown in areChangesKnown { buffer.writeInteger(UInt8(isKnown ? 1 : 0)) }
    buffer.writeWithUnsafeMutableBytes(minimumWritableBytes: 2 * codes.count) { raw in
      var offset = 0
      for code in codes {
        raw.storeBytes(of: code.bits.bigEndian, toByteOffset: offset, as: UInt16.self)
        offset &+= 2
      }
      return offset
    }
    return buffer
  }

  // MARK: Reading

  init(
    part: DirectoryPartition, place: DirectoryPlace, entries: Int, names: [RelayName], areChangesKnown: [Bool],
    codes: [Code]
  ) {
    self.part = part
    self.place = place
    self.entries = entries
    self.names = names
    self.areChangesKnown = areChangesKnown
    self.codes = codes
  }

  /// - Parameter questions: what it answers.
  /// - Returns: nil for anything that is no answer to them.
  init?(_ bytes: ByteBuffer, to questions: PartQuestions) {
    var buffer = bytes
    guard let (version, number, count, rest) = buffer.readMultipleIntegers(as: (UInt8, UInt8, UInt8, UInt8).self),
      version == PartQuestions.version, rest == 0, Int(number) == questions.part.number,
      Int(count) == questions.part.count,
      let (generation, revision, entries, nameCount) = buffer.readMultipleIntegers(
        as: (Int64, UInt64, UInt64, UInt16).self),
      let entries = Int(exactly: entries), entries <= Self.entriesMax,
      let names = Self.readNames(Int(nameCount), &buffer),
      let known = buffer.readBytes(length: questions.questions.count), known.allSatisfy({ $0 <= 1 }),
      buffer.readableBytes == 2 * questions.tokens.count
    else { return nil }
    let tokenCount = questions.tokens.count
    let codes = buffer.withUnsafeReadableBytes { raw in
      [Code](unsafeUninitializedCapacity: tokenCount) { codes, filled in
        while filled < tokenCount {
          let bits = UInt16(bigEndian: raw.loadUnaligned(fromByteOffset: 2 &* filled, as: UInt16.self))
          codes.initializeElement(at: filled, to: Code(bits: bits))
          filled &+= 1
        }
      }
    }
    guard codes.allSatisfy({ $0.isCode(among: names.count) }) else { return nil }
    self.init(
      part: questions.part, place: DirectoryPlace(generation: generation, revision: revision), entries: entries,
      names: names, areChangesKnown: known.map { $0 == 1 }, codes: codes)
  }

  private static func readNames(_ count: Int, _ buffer: inout ByteBuffer) -> [RelayName]? {
    guard count <= TokenEntry.relayMax else { return nil }
    var names: [RelayName] = []
    for _ in 0..<count {
      guard let length = buffer.readInteger(as: UInt8.self), let text = buffer.readString(length: Int(length)),
        let name = RelayName(text)
      else { return nil }
      names.append(name)
    }
    return names
  }
}
