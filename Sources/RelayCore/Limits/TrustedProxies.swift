/// The proxies that may say whom they bring (`client.trusted-proxies`).
///
/// Anyone can send `X-Forwarded-For`; a proxy appends to what it was sent. So the list is read from its right end, and
/// only as far as trusted proxies wrote it: the first address that is none of them is the client's.
package struct TrustedProxies: Sendable {
  private let ranges: [AddressRange]

  package init(_ ranges: [AddressRange]) { self.ranges = ranges }

  package var isEmpty: Bool { ranges.isEmpty }

  /// - Parameters:
  ///   - direct: who holds the connection.
  ///   - forwardedFor: the `X-Forwarded-For` fields in the order of the request, each a list.
  ///   - forwardedProto: the `X-Forwarded-Proto` fields, likewise.
  /// - Returns: `direct` itself unless it is trusted.
  package func origin(_ direct: RequestOrigin, forwardedFor: [String], forwardedProto: [String]) -> RequestOrigin {
    guard let address = direct.address, contains(address) else { return direct }
    var origin = direct
    var hops = 0
    for entry in Self.fromTheRight(forwardedFor).prefix(Self.hopsMax) {
      // No client wrote an entry that cannot be read: the proxy that wrote it answers for it.
      guard let address = Self.address(entry) else { break }
      origin.address = address
      guard contains(address) else { break }
      hops += 1
    }
    // Each proxy adds the scheme that it was spoken to by, or replaces the list by it.
    let schemes = Self.fromTheRight(forwardedProto)
    if !schemes.isEmpty {
      switch schemes[min(hops, schemes.count - 1)].lowercased() {
      case "https": origin.isSecure = true
      case "http": origin.isSecure = false
      default: break
      }
    }
    return origin
  }

  /// More proxies in a row than anyone runs.
  private static let hopsMax = 16

  private func contains(_ address: ClientAddress) -> Bool { ranges.contains { $0.contains(address) } }

  /// The elements of all lists, the last first.
  private static func fromTheRight(_ fields: [String]) -> [Substring] {
    fields.reversed().flatMap { field in
      field.split(separator: ",", omittingEmptySubsequences: false).reversed().map(trimmed)
    }
  }

  private static func trimmed(_ text: Substring) -> Substring {
    var text = text.drop { $0 == " " || $0 == "\t" }
    while text.last == " " || text.last == "\t" { text.removeLast() }
    return text
  }

  /// An address as proxies write it: bare, with a port, or in brackets.
  private static func address(_ entry: Substring) -> ClientAddress? {
    if entry.first == "[" {
      guard let end = entry.firstIndex(of: "]"), isPort(entry[entry.index(after: end)...]) else { return nil }
      return ClientAddress(text: String(entry[entry.index(after: entry.startIndex)..<end]))
    }
    guard let colon = entry.firstIndex(of: ":"), entry.contains("."), isPort(entry[colon...]) else {
      return ClientAddress(text: String(entry))
    }
    return ClientAddress(text: String(entry[..<colon]))
  }

  /// Nothing, or a colon and digits.
  private static func isPort(_ text: Substring) -> Bool {
    text.isEmpty
      || text.first == ":" && (2...6).contains(text.utf8.count)
        && text.utf8.dropFirst().allSatisfy { $0 >= 0x30 && $0 <= 0x39 }
  }
}
