/// Which addresses may be connected to where somebody else chose the URL: those of the public internet (IANA's
/// registries of special-purpose addresses). The one rule for WebPush and for peers.
package enum PublicAddress {
  /// - Parameter text: an address; with a zone it is none.
  package static func isPublic(_ text: String) -> Bool {
    guard let address = ClientAddress(text: text) else { return false }
    return isPublic(address)
  }

  /// Whether only this host reaches `host`: a loopback address, or `localhost`. Other names are not looked up.
  package static func isLoopback(_ host: String) -> Bool {
    guard let address = ClientAddress(text: host) else { return host.lowercased() == "localhost" }
    return address.bytes.count == 4 ? address.bytes[0] == 127 : address.bytes == Array(repeating: 0, count: 15) + [1]
  }

  /// Whether `host` is an address of a network that the internet does not reach. Names are not looked up, and every
  /// address of this host (`0.0.0.0`, `::`) is none.
  package static func isPrivate(_ host: String) -> Bool {
    guard let address = ClientAddress(text: host) else { return false }
    return !isPublic(address) && address.bytes.contains { $0 != 0 }
  }

  private static func isPublic(_ address: ClientAddress) -> Bool {
    if address.bytes.count == 4 { return !special4.contains { $0.contains(address) } }
    // NAT64: the last four bytes are whom it leads to.
    if nat64.contains(where: { $0.contains(address) }), let inner = ClientAddress(bytes: Array(address.bytes.suffix(4)))
    {
      return isPublic(inner)
    }
    return global6.contains { $0.contains(address) } && !special6.contains { $0.contains(address) }
  }

  private static let special4 = ranges(
    // This network; private; shared (CGNAT); loopback; link-local; private.
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
    // Assigned to protocols; documentation; 6to4's relays; private; benchmarks; documentation.
    "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24",
    "203.0.113.0/24",
    // Multicast; reserved and broadcast.
    "224.0.0.0/4", "240.0.0.0/4")
  /// All that has been given out. Loopback, unique local, link-local and multicast addresses lie outside of it.
  private static let global6 = ranges("2000::/3")
  private static let special6 = ranges(
    // Protocols, Teredo among them; documentation; 6to4, which holds an IPv4 address; documentation.
    "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")
  private static let nat64 = ranges("64:ff9b::/96")

  private static func ranges(_ texts: String...) -> [AddressRange] { texts.compactMap { AddressRange(text: $0) } }
}
