/// A pattern with two wildcards: `*` is any run of characters, also none, `?` is exactly one; neither is a line feed.
/// All else stands for itself (push gateway reference, 3 and 7.2). The whole text must match.
package struct PushGlob: Sendable, Equatable {
  private let pattern: [Unicode.Scalar]
  private let ignoresCase: Bool

  /// - Parameter ignoresCase: of ASCII letters.
  package init(_ pattern: some StringProtocol, ignoringCase ignoresCase: Bool = false) {
    self.pattern = Self.scalars(pattern, ignoringCase: ignoresCase)
    self.ignoresCase = ignoresCase
  }

  /// Goes back to the last star at most: never longer than the product of both lengths.
  package func matches(_ text: some StringProtocol) -> Bool {
    let text = Self.scalars(text, ignoringCase: ignoresCase)
    var (place, position) = (0, 0)
    var star: (place: Int, position: Int)?
    while position < text.count {
      if place < pattern.count, pattern[place] == "*" {
        place += 1
        star = (place, position)
      } else if place < pattern.count,
        pattern[place] == text[position] || pattern[place] == "?" && text[position] != "\n"
      {
        place += 1
        position += 1
      } else if let last = star, text[last.position] != "\n" {
        // The star takes one more.
        place = last.place
        position = last.position + 1
        star = (last.place, last.position + 1)
      } else {
        return false
      }
    }
    return pattern[place...].allSatisfy { $0 == "*" }
  }

  private static func scalars(_ text: some StringProtocol, ignoringCase: Bool) -> [Unicode.Scalar] {
    guard ignoringCase else { return Array(text.unicodeScalars) }
    return text.unicodeScalars.map { ("A"..."Z").contains($0) ? Unicode.Scalar(UInt8($0.value) + 32) : $0 }
  }
}
