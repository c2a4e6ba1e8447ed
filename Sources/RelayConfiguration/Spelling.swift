/// Guesses what a misspelt name was meant to be.
package enum Spelling {
  /// - Returns: the candidate that is fewest edits away, the first of several; when none is near, one that `text`
  ///   shortens (`limits.sms.size`), or whose end it is (`port`); else nil.
  package static func nearest(to text: String, among candidates: [String]) -> String? {
    let bound = max(2, text.count / 3)
    let ranked = candidates.map { ($0, distance(text, $0)) }.filter { $0.1 <= bound }
    return ranked.min { $0.1 < $1.1 }?.0
      ?? candidates.first { shortens(text, $0) }
      ?? candidates.first { $0.hasSuffix("." + text) }
  }

  /// Whether each component of `text` begins that of `candidate` in its place.
  private static func shortens(_ text: String, _ candidate: String) -> Bool {
    let (parts, whole) = (text.split(separator: "."), candidate.split(separator: "."))
    return parts.count > 1 && parts.count == whole.count && zip(parts, whole).allSatisfy { $1.hasPrefix($0) }
  }

  /// Edits (insert, delete, replace, swap neighbours) that turn `a` into `b`.
  static func distance(_ a: String, _ b: String) -> Int {
    let (a, b) = (Array(a.unicodeScalars), Array(b.unicodeScalars))
    var beforeLast = [Int](repeating: 0, count: b.count + 1)
    var last = Array(0...b.count)
    for i in a.indices {
      var row = [i + 1]
      for j in b.indices {
        var best = min(row[j] + 1, last[j + 1] + 1, last[j] + (a[i] == b[j] ? 0 : 1))
        if i > 0, j > 0, a[i] == b[j - 1], a[i - 1] == b[j] { best = min(best, beforeLast[j - 1] + 1) }
        row.append(best)
      }
      (beforeLast, last) = (last, row)
    }
    return last[b.count]
  }
}
