/// Which line of a YAML text each key stands on.
///
/// A light scan of the block style, since swift-configuration keeps no positions: it only finds places for keys that
/// the parser has already found. A key inside braces has the line of the nearest key around it that opens a line.
struct KeyLines: Sendable {
  private var lines: [String: Int] = [:]

  init(_ text: String) {
    var open: [(indent: Int, path: String)] = []
    for (index, line) in text.split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
      guard let (indent, key) = Self.key(of: line) else { continue }
      while let last = open.last, last.indent >= indent { open.removeLast() }
      let path = open.last.map { "\($0.path).\(key)" } ?? key
      open.append((indent, path))
      if lines[path] == nil { lines[path] = index + 1 }
    }
  }

  /// - Returns: nil when no key on the way to `key` opens a line.
  func line(of key: String) -> Int? {
    var path = key[...]
    while true {
      if let line = lines[String(path)] { return line }
      guard let dot = path.lastIndex(of: ".") else { return nil }
      path = path[..<dot]
    }
  }

  /// Whether anything but blank lines, comments and document marks is there.
  static func hasContent(_ text: String) -> Bool {
    text.split(whereSeparator: \.isNewline).contains { line in
      let content = line.drop { $0 == " " || $0 == "\t" || $0 == "\u{FEFF}" }
      return !content.isEmpty && !content.hasPrefix("#") && content != "---" && content != "..."
    }
  }

  private static func key(of line: Substring) -> (indent: Int, key: String)? {
    let content = line.drop { $0 == " " }
    let indent = line.count - content.count
    guard let first = content.first, first != "#", first != "-" else { return nil }
    if first == "\"" || first == "'" {
      let rest = content.dropFirst()
      guard let end = rest.firstIndex(of: first),
        rest[rest.index(after: end)...].drop(while: { $0 == " " }).first == ":"
      else { return nil }
      return (indent, String(rest[..<end]))
    }
    guard let colon = content.firstIndex(of: ":") else { return nil }
    let behind = content[content.index(after: colon)...].first
    guard behind == nil || behind == " " || behind == "\t" || behind == "\r" else { return nil }
    return (indent, String(content[..<colon].trimmingSuffix { $0 == " " }))
  }
}

extension Substring {
  fileprivate func trimmingSuffix(while predicate: (Character) -> Bool) -> Substring {
    var result = self
    while let last = result.last, predicate(last) { result.removeLast() }
    return result
  }
}
