/// Makes values fit to be shown.
enum Masking {
  static let hidden = "***"

  static func masked(_ text: String, _ secrecy: ConfigurationKey.Secrecy) -> String {
    switch secrecy {
    case .open: text
    case .secret: hidden
    case .password: withoutPasswords(text)
    }
  }

  /// Hides the password of a URL, wherever it stands: before the last `@` ahead of the query, or in an item of the
  /// query whose name says so. Hides rather too much of a URL that is malformed.
  static func withoutPasswords(_ url: String) -> String {
    guard let scheme = url.firstRange(of: "://") else { return url }
    var rest = url[scheme.upperBound...]
    var userInfo = ""
    // A query comes behind a path: a question mark ahead of it may be the password's.
    let query = rest.firstIndex(of: "/").flatMap { rest[$0...].firstIndex(of: "?") } ?? rest.endIndex
    if let at = rest[..<query].lastIndex(of: "@") {
      let text = rest[..<at]
      userInfo = (text.firstIndex(of: ":").map { "\(text[..<$0]):\(hidden)" } ?? String(text)) + "@"
      rest = rest[rest.index(after: at)...]
    }
    let parts = rest.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
    var shown = url[..<scheme.upperBound] + userInfo + parts[0]
    if parts.count == 2 {
      let items = parts[1].split(separator: "&", omittingEmptySubsequences: false).map { item in
        guard let equals = item.firstIndex(of: "="), item[..<equals].lowercased().hasSuffix("password") else {
          return String(item)
        }
        return "\(item[...equals])\(hidden)"
      }
      shown += "?" + items.joined(separator: "&")
    }
    return String(shown)
  }

  /// A value in quotes for a message: control characters escaped, passwords of URLs hidden, at most 80 characters.
  static func quoted(_ text: String) -> String {
    let shown = withoutPasswords(text)
    let cut = shown.count > 80 ? shown.prefix(80) + "..." : shown[...]
    return cut.debugDescription
  }
}
