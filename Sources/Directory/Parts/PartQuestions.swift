import NIOCore
import RelayCore

/// The questions of some look-ups to one part of the directory, as they go to a process that holds it. Big-endian:
/// the version, the part's number and count, and 0, a byte each; the count of questions in 4 bytes; for each question
/// a byte that tells its kind, 8 bytes each for generation and revision of a place, and its count of tokens in 4;
/// then the tokens of all of them, 10 bytes each.
struct PartQuestions: Sendable, Equatable {
  struct Question: Sendable, Equatable {
    let telling: WantedContacts.Telling
    let tokenCount: Int
  }

  let part: DirectoryPartition
  var questions: [Question] = []
  /// The tokens of the first question come first.
  var tokens = PackedTokens()

  static let version: UInt8 = 1
  static let questionsMax = 256
  static let tokensMax = 100_000
  static let headBytes = 8
  static let questionBytes = 21
  static let bytesMax = headBytes + questionBytes * questionsMax + ContactToken.byteCount * tokensMax

  private static let (entries, changes, changesSince): (UInt8, UInt8, UInt8) = (0, 1, 2)

  init(of part: DirectoryPartition) { self.part = part }

  // MARK: Writing

  var bytes: ByteBuffer {
    var buffer = ByteBuffer()
    buffer.reserveCapacity(
      Self.headBytes + Self.questionBytes * questions.count + ContactToken.byteCount * tokens.count)
    buffer.writeInteger(Self.version)
    buffer.writeInteger(UInt8(part.number))
    buffer.writeInteger(UInt8(part.count))
    buffer.writeInteger(UInt8(0))
    buffer.writeInteger(UInt32(questions.count))
    for question in questions { Self.write(question, to: &buffer) }
    tokens.write(to: &buffer)
    return buffer
  }

  private static func write(_ question: Question, to buffer: inout ByteBuffer) {
    switch question.telling {
    case .entries: buffer.writeMultipleIntegers(entries, Int64(0), UInt64(0))
    case .changes(nil): buffer.writeMultipleIntegers(changes, Int64(0), UInt64(0))
    case .changes(let place?): buffer.writeMultipleIntegers(changesSince, place.generation, place.revision)
    }
    buffer.writeInteger(UInt32(question.tokenCount))
  }

  // MARK: Reading

  /// - Returns: nil for anything that `bytes` does not write.
  init?(_ bytes: ByteBuffer) {
    var buffer = bytes
    guard let (version, number, count, rest) = buffer.readMultipleIntegers(as: (UInt8, UInt8, UInt8, UInt8).self),
      version == Self.version, rest == 0, let part = DirectoryPartition(Int(number), of: Int(count)),
      let questionCount = buffer.readInteger(as: UInt32.self), questionCount <= UInt32(Self.questionsMax)
    else { return nil }
    self.init(of: part)
    var tokenCount = 0
    for _ in 0..<questionCount {
      guard let question = Self.readQuestion(&buffer) else { return nil }
      tokenCount += question.tokenCount
      guard tokenCount <= Self.tokensMax else { return nil }
      questions.append(question)
    }
    guard let tokens = PackedTokens(buffer, count: tokenCount) else { return nil }
    self.tokens = tokens
  }

  private static func readQuestion(_ buffer: inout ByteBuffer) -> Question? {
    guard
      let (kind, generation, revision, count) = buffer.readMultipleIntegers(as: (UInt8, Int64, UInt64, UInt32).self),
      count <= UInt32(tokensMax)
    else { return nil }
    let telling: WantedContacts.Telling
    switch kind {
    case entries where generation == 0 && revision == 0: telling = .entries
    case changes where generation == 0 && revision == 0: telling = .changes(since: nil)
    case changesSince: telling = .changes(since: DirectoryPlace(generation: generation, revision: revision))
    default: return nil
    }
    return Question(telling: telling, tokenCount: Int(count))
  }
}
