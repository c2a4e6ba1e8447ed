import Glibc

/// The endpoint at which a relay listens for its peers: `https://host:port`.
package struct PeerEndpoint: Sendable, Hashable, CustomStringConvertible {
  /// A DNS name or an IP address, without brackets.
  package let host: String
  package let port: Int

  /// Reads `https://host[:port][/]`; the port is 443 when none is given. IPv6 addresses stand in brackets.
  /// - Returns: nil for another scheme, a path, a query, credentials, or no host.
  package init?(_ text: String) {
    // C reads a text up to its first NUL only.
    guard text.utf8.count <= Self.textBytesMax, !text.utf8.contains(0), text.lowercased().hasPrefix("https://") else {
      return nil
    }
    var rest = text.dropFirst("https://".count)
    if rest.last == "/" { rest.removeLast() }
    let host: Substring
    if rest.first == "[" {
      guard let end = rest.firstIndex(of: "]") else { return nil }
      host = rest[rest.index(after: rest.startIndex)..<end]
      rest = rest[rest.index(after: end)...]
      guard Self.isIPAddress(String(host)) else { return nil }
    } else {
      host = rest.prefix { $0 != ":" }
      rest = rest.dropFirst(host.count)
      guard Self.isHostName(host) else { return nil }
    }
    guard !rest.isEmpty else {
      self.init(host: host.lowercased(), port: 443)
      return
    }
    let digits = rest.dropFirst()
    guard rest.first == ":", digits.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let port = UInt16(digits), port > 0
    else { return nil }
    self.init(host: host.lowercased(), port: Int(port))
  }

  private init(host: String, port: Int) {
    self.host = host
    self.port = port
  }

  /// The one form in which an endpoint is stored and shown.
  package var text: String { host.contains(":") ? "https://[\(host)]:\(port)" : "https://\(host):\(port)" }
  package var description: String { text }
  /// Certificates name addresses and DNS names differently.
  package var isIPAddress: Bool { Self.isIPAddress(host) }

  /// The address's bytes in network order, 4 or 16; nil for a DNS name.
  var addressBytes: [UInt8]? { Self.addressBytes(host) }

  private static let textBytesMax = 300

  private static func isIPAddress(_ text: String) -> Bool { addressBytes(text) != nil }

  private static func addressBytes(_ text: String) -> [UInt8]? {
    for (family, count) in [(AF_INET, 4), (AF_INET6, 16)] {
      var bytes = [UInt8](repeating: 0, count: count)
      if inet_pton(family, text, &bytes) == 1 { return bytes }
    }
    return nil
  }

  private static func isHostName(_ text: Substring) -> Bool {
    guard (1...253).contains(text.utf8.count) else { return false }
    return text.split(separator: ".", omittingEmptySubsequences: false).allSatisfy { label in
      (1...63).contains(label.utf8.count) && label.first != "-" && label.last != "-"
        && label.utf8.allSatisfy { byte in
          (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte) || (0x61...0x7A).contains(byte)
            || byte == 0x2D || byte == 0x5F
        }
    }
  }
}
