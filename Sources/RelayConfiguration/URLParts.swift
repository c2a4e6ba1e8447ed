/// A URL cut at its delimiters (RFC 3986, appendix B), nothing decoded.
struct URLParts {
  /// Lower case.
  let scheme: String
  /// nil without `//`.
  let authority: Authority?
  let path: String
  /// The text behind `?`.
  let query: String?
  let hasFragment: Bool

  struct Authority {
    let user: String?
    let password: String?
    /// `host`, `host:port`, or several of them joined by commas.
    let hosts: String
  }

  /// - Returns: nil without a scheme, with white space or control characters, or with a broken percent escape.
  init?(_ text: String) {
    guard text.utf8.allSatisfy({ $0 > 0x20 && $0 != 0x7F }), Self.percentDecoded(text) != nil else { return nil }
    guard let colon = text.firstIndex(of: ":"), colon != text.startIndex else { return nil }
    scheme = text[..<colon].lowercased()
    guard scheme.utf8.allSatisfy({ (0x61...0x7A).contains($0) || (0x30...0x39).contains($0) || $0 == 0x2B }) else {
      return nil
    }
    var rest = text[text.index(after: colon)...]
    hasFragment = rest.contains("#")
    rest = rest.prefix { $0 != "#" }
    if let mark = rest.firstIndex(of: "?") {
      query = String(rest[rest.index(after: mark)...])
      rest = rest[..<mark]
    } else {
      query = nil
    }
    guard rest.hasPrefix("//") else {
      authority = nil
      path = String(rest)
      return
    }
    rest = rest.dropFirst(2)
    let slash = rest.firstIndex(of: "/") ?? rest.endIndex
    authority = Authority(rest[..<slash])
    path = String(rest[slash...])
  }

  /// The query's items in their order, decoded. - Returns: nil when one has no `=`.
  var queryItems: [(name: String, value: String)]? {
    guard let query else { return [] }
    var items: [(name: String, value: String)] = []
    for item in query.split(separator: "&") {
      guard let equals = item.firstIndex(of: "="), let value = Self.percentDecoded(item[item.index(after: equals)...])
      else { return nil }
      items.append((String(item[..<equals]), value))
    }
    return items
  }

  /// - Returns: nil for a broken escape, a NUL, or bytes that are not UTF-8.
  static func percentDecoded(_ text: some StringProtocol) -> String? {
    var bytes: [UInt8] = []
    var utf8 = text.utf8.makeIterator()
    while let byte = utf8.next() {
      guard byte == UInt8(ascii: "%") else {
        bytes.append(byte)
        continue
      }
      guard let high = utf8.next().flatMap(hexValue), let low = utf8.next().flatMap(hexValue) else { return nil }
      bytes.append(high << 4 | low)
    }
    return bytes.contains(0) ? nil : String(validating: bytes, as: UTF8.self)
  }

  private static func hexValue(_ byte: UInt8) -> UInt8? {
    Character(UnicodeScalar(byte)).hexDigitValue.map { UInt8($0) }
  }
}

extension URLParts.Authority {
  init(_ text: Substring) {
    guard let at = text.lastIndex(of: "@") else {
      (user, password, hosts) = (nil, nil, String(text))
      return
    }
    hosts = String(text[text.index(after: at)...])
    let userInfo = text[..<at]
    if let colon = userInfo.firstIndex(of: ":") {
      user = String(userInfo[..<colon])
      password = String(userInfo[userInfo.index(after: colon)...])
    } else {
      (user, password) = (String(userInfo), nil)
    }
  }
}
