import HTTPTypes
import RelayCore

/// The marks of the messages of one request, in their order, or of its receipt (docs/federation-wire.md, "Tags and
/// marks").
enum CrossingMarks {
  /// - Returns: nil for none.
  static func text(_ crossings: [Crossing]) -> String? {
    guard !crossings.isEmpty else { return nil }
    return crossings.map { hexadecimal(UInt64(bitPattern: $0.mark.bits)) }.joined(separator: ",")
  }

  /// - Returns: none where `text` is not exactly `count` marks: what cannot be told apart is not counted.
  static func read(_ text: String?, count: Int) -> [CrossingMark] {
    guard let text, count > 0, text.utf8.count == count * 17 - 1 else { return [] }
    let marks = text.split(separator: ",", omittingEmptySubsequences: false).compactMap { word in
      bits(word).map { CrossingMark(bits: Int64(bitPattern: $0)) }
    }
    return marks.count == count ? marks : []
  }

  /// - Returns: nil unless `word` is 16 hexadecimal digits.
  static func bits(_ word: some StringProtocol) -> UInt64? {
    // A sign is read as a part of a number, and is no digit.
    guard word.utf8.count == 16, word.utf8.first != UInt8(ascii: "+"), word.utf8.first != UInt8(ascii: "-") else {
      return nil
    }
    return UInt64(word, radix: 16)
  }

  static func hexadecimal(_ bits: UInt64) -> String {
    let digits = String(bits, radix: 16)
    return String(repeating: "0", count: 16 - digits.count) + digits
  }
}

extension HTTPFields {
  /// The marks of `handOver`, as the header of a single request names them.
  func marks(of handOver: HandOver) -> [CrossingMark] {
    guard let name = HTTPField.Name(PeerRequest.crossingsHeader) else { return [] }
    return CrossingMarks.read(self[name], count: handOver.crossingCount)
  }
}

extension HandOver {
  /// How many the loss ledger counts: a message for each device, or one receipt.
  var crossingCount: Int {
    switch self {
    case .message(let submission, _): submission.messages.count
    case .receipt: 1
    }
  }
}
