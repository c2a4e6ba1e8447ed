/// An `http` or `https` URL without user, password, query or fragment.
package struct WebURL: Sendable, Equatable, CustomStringConvertible {
  package let isSecure: Bool
  /// Without brackets when it is an IPv6 address.
  package let host: String
  /// That of the scheme when none was written.
  package let port: Int
  /// Empty, or begins with `/` and does not end with one.
  package let path: String

  /// `https://host[:port][/path]`, the port only when it is not that of the scheme, no slash at the end.
  package var text: String {
    let name = host.contains(":") ? "[\(host)]" : host
    return "\(isSecure ? "https" : "http")://\(name)\(port == (isSecure ? 443 : 80) ? "" : ":\(port)")\(path)"
  }
  package var description: String { text }

  /// - Returns: nil when `text` is no such URL.
  package init?(_ text: String) {
    guard let url = URLParts(text), url.scheme == "http" || url.scheme == "https", url.query == nil, !url.hasFragment
    else { return nil }
    guard let authority = url.authority, authority.user == nil, let (host, port) = Self.endpoint(authority.hosts)
    else { return nil }
    isSecure = url.scheme == "https"
    self.host = host
    self.port = port ?? (isSecure ? 443 : 80)
    var path = Substring(url.path)
    while path.hasSuffix("/") { path.removeLast() }
    self.path = String(path)
  }

  /// Splits `host[:port]`. - Returns: nil when either is malformed or the port is 0.
  static func endpoint(_ text: String) -> (host: String, port: Int?)? {
    var host = text
    var port: Int?
    let afterBrackets = text.lastIndex(of: "]").map { text.index(after: $0) } ?? text.startIndex
    if let colon = text[afterBrackets...].lastIndex(of: ":") {
      let digits = text[text.index(after: colon)...]
      guard digits.utf8.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }), let number = Int(digits),
        (1...65_535).contains(number)
      else { return nil }
      (host, port) = (String(text[..<colon]), number)
    }
    if host.hasPrefix("["), host.hasSuffix("]") {
      host = String(host.dropFirst().dropLast())
      guard host.contains(":") else { return nil }
    } else if host.contains(":") {
      return nil
    }
    return isHost(host) ? (host, port) : nil
  }

  /// Whether `text` could name a host: letters, digits, `.`, `-`, `_`, and for addresses `:` and `%`.
  static func isHost(_ text: String) -> Bool {
    guard (1...253).contains(text.utf8.count), !text.hasPrefix("-"), !text.hasPrefix(".") else { return false }
    let isAddress = text.filter { $0 == ":" }.count >= 2
    return text.utf8.allSatisfy { byte in
      switch byte {
      case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, UInt8(ascii: "."), UInt8(ascii: "-"), UInt8(ascii: "_"): true
      case UInt8(ascii: ":"), UInt8(ascii: "%"): isAddress
      default: false
      }
    }
  }
}

extension ValueType where Value == WebURL {
  static let webURL = ValueType(name: "URL") { text throws(Malformed) in
    guard let url = WebURL(text) else {
      throw Malformed("http://HOST[:PORT][/PATH] or https://..., without user, query or fragment")
    }
    return url
  }
  static let secureURL = ValueType(name: "URL") { text throws(Malformed) in
    guard let url = WebURL(text), url.isSecure else { throw Malformed("https://HOST[:PORT][/PATH]") }
    return url
  }
  /// Peers are told such a URL, for one.
  static let secureOrigin = ValueType(name: "URL") { text throws(Malformed) in
    guard let url = WebURL(text), url.isSecure, url.path.isEmpty else { throw Malformed("https://HOST[:PORT]") }
    return url
  }
}
