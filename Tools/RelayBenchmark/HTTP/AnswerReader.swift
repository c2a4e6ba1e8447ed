import NIOCore

/// A whole answer of a server.
struct Answer: Sendable {
  let status: Int
  let body: ByteBuffer
  /// Whether it says when to come again (`Retry-After`).
  let saysWhen: Bool

  var isSuccess: Bool { (200..<300).contains(status) }
}

/// Bytes that are no answer, or one of a kind that our servers never send.
struct UnreadableAnswer: Error, CustomStringConvertible {
  let description: String
}

/// Cuts the bytes of an HTTP/1.1 connection into answers.
///
/// Takes only what our servers send, answers with `Content-Length`, so that reading them costs the machine that is
/// being measured little.
struct AnswerReader {
  private static let headBytesMax = 16 << 10
  private static let bodyBytesMax = 32 << 20

  private var received = ByteBuffer()
  private var head: Head?

  private struct Head {
    let status: Int
    let bodyBytes: Int
    let saysWhen: Bool
  }

  mutating func append(_ bytes: inout ByteBuffer) {
    if received.readableBytes == 0 {
      received = bytes
    } else {
      received.writeBuffer(&bytes)
    }
  }

  /// - Returns: nil when more has to come first.
  mutating func next() throws(UnreadableAnswer) -> Answer? {
    if head == nil {
      guard let (head, byteCount) = try Self.readHead(received.readableBytesUInt8Span) else { return nil }
      received.moveReaderIndex(forwardBy: byteCount)
      self.head = head
    }
    guard let head, let body = received.readSlice(length: head.bodyBytes) else { return nil }
    self.head = nil
    return Answer(status: head.status, body: body, saysWhen: head.saysWhen)
  }

  /// - Returns: the head and its length with the empty line behind it; nil when that has not come yet.
  private static func readHead(_ bytes: Span<UInt8>) throws(UnreadableAnswer) -> (Head, byteCount: Int)? {
    var status: Int?
    var bodyBytes: Int?
    var saysWhen = false
    var lineStart = 0
    for index in bytes.indices where bytes[index] == UInt8(ascii: "\n") {
      let line = bytes.extracting(lineStart..<index)
      if status == nil {
        status = try readStatus(line)
      } else if line.count <= 1 {
        guard let status, let length = bodyBytes ?? (status == 204 ? 0 : nil) else {
          throw UnreadableAnswer(description: "an answer without Content-Length")
        }
        return (Head(status: status, bodyBytes: length, saysWhen: saysWhen), index + 1)
      } else if let length = try readContentLength(line) {
        bodyBytes = length
      } else if begins(line, with: "retry-after:") {
        saysWhen = true
      }
      lineStart = index + 1
    }
    guard bytes.count <= headBytesMax else { throw UnreadableAnswer(description: "a head without end") }
    return nil
  }

  /// `HTTP/1.1 200 OK`
  private static func readStatus(_ line: Span<UInt8>) throws(UnreadableAnswer) -> Int {
    guard line.count >= 12, let status = number(line.extracting(9..<12)), (200...599).contains(status) else {
      throw UnreadableAnswer(description: "a first line without a status")
    }
    return status
  }

  /// - Returns: nil when the line is another header.
  private static func readContentLength(_ line: Span<UInt8>) throws(UnreadableAnswer) -> Int? {
    let name: StaticString = "content-length:"
    guard begins(line, with: name) else { return nil }
    let nameBytes = name.utf8CodeUnitCount
    guard let length = number(line.extracting(nameBytes..<line.count)), length <= bodyBytesMax else {
      throw UnreadableAnswer(description: "a Content-Length that cannot be")
    }
    return length
  }

  /// - Parameter name: of a header, in lower case, with its colon.
  private static func begins(_ line: Span<UInt8>, with name: StaticString) -> Bool {
    guard line.count > name.utf8CodeUnitCount else { return false }
    return name.withUTF8Buffer { name in
      for index in name.indices where line[index] | 0x20 != name[index] | 0x20 { return false }
      return true
    }
  }

  /// Digits between white space. - Returns: nil for anything else, and for what has more than nine digits.
  private static func number(_ text: Span<UInt8>) -> Int? {
    var value = 0
    var digits = 0
    for index in text.indices {
      switch text[index] {
      case 0x30...0x39 where digits < 9:
        value = value * 10 + Int(text[index] - 0x30)
        digits += 1
      case UInt8(ascii: " "), UInt8(ascii: "\t"), UInt8(ascii: "\r"): break
      default: return nil
      }
    }
    return digits > 0 ? value : nil
  }
}
