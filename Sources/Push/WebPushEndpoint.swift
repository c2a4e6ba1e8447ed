import Foundation
import RelayCore

/// The URL of a subscription, taken apart strictly: what is checked must be what is connected to.
struct WebPushEndpoint: Sensitive, Sendable, Equatable {
  static let kind: StaticString = "endpoint"
  let isSecure: Bool
  /// In lower case; an IPv6 address without its brackets.
  let host: String
  /// Scheme, host and port as they are written but in lower case: whom a VAPID token is for (RFC 8292, 2).
  let origin: String
  /// Path and query; begins with a slash.
  let path: String
  let server: PushServer

  private static let lengthMax = 2048

  /// - Returns: nil for what is no HTTP URL of plain ASCII, has no host, or names a user.
  init?(_ text: String) {
    guard text.utf8.count <= Self.lengthMax, text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F && $0 != 0x5C }),
      let (scheme, authority, rest) = Self.split(text), let (host, port) = Self.hostAndPort(authority.lowercased())
    else { return nil }
    isSecure = scheme == "https"
    self.host = host
    let name = host.contains(":") ? "[\(host)]" : host
    server = PushServer(isSecure: isSecure, host: host, port: port)
    origin = "\(scheme)://\(name)\(port.map { ":\($0)" } ?? "")"
    let path = rest.prefix { $0 != "#" }
    self.path = path.hasPrefix("/") ? String(path) : "/\(path)"
  }

  var url: String { origin + path }

  /// Whether the HTTP client, which reads the URL by itself, comes to the same host: what it connects to must be what
  /// was checked.
  var isReadAlike: Bool {
    guard let read = URL(string: url)?.host else { return false }
    return (read.hasPrefix("[") && read.hasSuffix("]") ? String(read.dropFirst().dropLast()) : read) == host
  }

  /// The authority as it is written. - Returns: nil for what is no HTTP URL.
  static func authority(_ text: String) -> Substring? { split(text)?.authority }

  private static func split(_ text: String) -> (scheme: String, authority: Substring, rest: Substring)? {
    for scheme in ["https", "http"] {
      let start = "\(scheme)://"
      guard text.prefix(start.count).lowercased() == start else { continue }
      let rest = text.dropFirst(start.count)
      let authority = rest.prefix { $0 != "/" && $0 != "?" && $0 != "#" }
      return authority.isEmpty ? nil : (scheme, authority, rest.dropFirst(authority.count))
    }
    return nil
  }

  private static func hostAndPort(_ authority: String) -> (host: String, port: Int?)? {
    let host: Substring
    var rest: Substring
    if authority.hasPrefix("[") {
      guard let end = authority.firstIndex(of: "]") else { return nil }
      host = authority[authority.index(after: authority.startIndex)..<end]
      rest = authority[authority.index(after: end)...]
      guard host.contains(":"), ClientAddress(text: String(host)) != nil else { return nil }
    } else {
      host = authority.prefix { $0 != ":" }
      rest = authority.dropFirst(host.count)
      guard !host.isEmpty, host.utf8.allSatisfy(isNameCharacter) else { return nil }
    }
    guard !rest.isEmpty else { return (String(host), nil) }
    rest = rest.dropFirst()
    guard authority[..<rest.startIndex].hasSuffix(":"), (1...5).contains(rest.utf8.count),
      rest.utf8.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }), let port = Int(rest), (1...65535).contains(port)
    else { return nil }
    return (String(host), port)
  }

  /// The characters of a host's name: none that two readers of URLs understand differently.
  private static func isNameCharacter(_ byte: UInt8) -> Bool {
    switch byte {
    case 0x30...0x39, 0x61...0x7A, UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"): true
    default: false
    }
  }
}
