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
      let (isSecure, authority, rest) = Self.split(text), let (host, port) = Self.hostAndPort(authority.lowercased())
    else { return nil }
    self.isSecure = isSecure
    self.host = host
    let name = host.utf8.contains(UInt8(ascii: ":")) ? "[\(host)]" : host
    server = PushServer(isSecure: isSecure, host: host, port: port)
    origin = "\(isSecure ? "https" : "http")://\(name)\(port.map { ":\($0)" } ?? "")"
    let path = Substring(rest.utf8.prefix { $0 != UInt8(ascii: "#") })
    self.path = path.utf8.first == UInt8(ascii: "/") ? String(path) : "/\(path)"
  }

  var url: String { origin + path }

  /// The authority as it is written. - Returns: nil for what is no HTTP URL.
  static func authority(_ text: String) -> Substring? { split(text)?.authority }

  private static func split(_ text: String) -> (isSecure: Bool, authority: Substring, rest: Substring)? {
    let isSecure = begins(text, with: "https://")
    guard isSecure || begins(text, with: "http://") else { return nil }
    let behind = text.utf8.dropFirst(isSecure ? 8 : 7)
    let end = behind.firstIndex { $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "?") || $0 == UInt8(ascii: "#") }
    let authority = behind[..<(end ?? behind.endIndex)]
    guard !authority.isEmpty else { return nil }
    return (isSecure, Substring(authority), Substring(behind[authority.endIndex...]))
  }

  /// - Parameter start: in lower case; `text` may have any.
  private static func begins(_ text: String, with start: String) -> Bool {
    text.utf8.count >= start.utf8.count
      && zip(text.utf8, start.utf8).allSatisfy { byte, wanted in
        ((0x41...0x5A).contains(byte) ? byte | 0x20 : byte) == wanted
      }
  }

  private static func hostAndPort(_ authority: String) -> (host: String, port: Int?)? {
    let utf8 = authority.utf8
    let host: String
    var rest: Substring.UTF8View
    if utf8.first == UInt8(ascii: "[") {
      guard let end = utf8.firstIndex(of: UInt8(ascii: "]")) else { return nil }
      host = String(authority[utf8.index(after: utf8.startIndex)..<end])
      rest = utf8[utf8.index(after: end)...]
      guard host.utf8.contains(UInt8(ascii: ":")), ClientAddress(text: host) != nil else { return nil }
    } else {
      let name = utf8.prefix { $0 != UInt8(ascii: ":") }
      guard !name.isEmpty, name.allSatisfy(isNameCharacter) else { return nil }
      host = String(Substring(name))
      rest = utf8[name.endIndex...]
    }
    guard let mark = rest.popFirst() else { return (host, nil) }
    guard mark == UInt8(ascii: ":"), (1...5).contains(rest.count), rest.allSatisfy({ (0x30...0x39).contains($0) }),
      let port = Int(Substring(rest)), (1...65535).contains(port)
    else { return nil }
    return (host, port)
  }

  /// The characters of a host's name: none that two readers of URLs understand differently.
  private static func isNameCharacter(_ byte: UInt8) -> Bool {
    switch byte {
    case 0x30...0x39, 0x61...0x7A, UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"): true
    default: false
    }
  }
}
