import Glibc

/// The network address that a request comes from, as limits charge it.
package struct ClientAddress: Sensitive, Sendable, Hashable {
  package static let kind: StaticString = "address"
  /// 4 bytes, or 16; an IPv4 address mapped into IPv6 has 4.
  package let bytes: [UInt8]

  /// - Returns: nil unless there are 4 or 16 bytes.
  package init?(bytes: [UInt8]) {
    if bytes.count == 16, bytes.prefix(12) == Self.mappedPrefix {
      self.bytes = Array(bytes.suffix(4))
    } else {
      guard bytes.count == 4 || bytes.count == 16 else { return nil }
      self.bytes = bytes
    }
  }

  /// Reads the usual forms of IPv4 and IPv6 addresses. - Returns: nil for anything else, a zone or a port included.
  package init?(text: String) {
    var (v4, v6) = (in_addr(), in6_addr())
    if inet_pton(AF_INET, text, &v4) == 1 {
      self.init(bytes: withUnsafeBytes(of: &v4) { Array($0) })
    } else if inet_pton(AF_INET6, text, &v6) == 1 {
      self.init(bytes: withUnsafeBytes(of: &v6) { Array($0) })
    } else {
      return nil
    }
  }

  /// The networks that a limit charges. For IPv4 it is the address. For IPv6 they are the /64, which one customer
  /// holds whole, and the /56 and /48 around it, since many a customer holds one of those.
  package var networks: [ClientNetwork] {
    guard bytes.count == 16 else { return [ClientNetwork(prefix: bytes[...], allowance: 1)] }
    return [
      ClientNetwork(prefix: bytes.prefix(8), allowance: 1), ClientNetwork(prefix: bytes.prefix(7), allowance: 4),
      ClientNetwork(prefix: bytes.prefix(6), allowance: 16),
    ]
  }

  /// One customer's: the IPv4 address, or the /64 of an IPv6 address.
  package var customer: ArraySlice<UInt8> { bytes.count == 16 ? bytes.prefix(8) : bytes[...] }

  private static let mappedPrefix: ArraySlice<UInt8> = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF]
}

/// A network that limits by address charge.
package struct ClientNetwork: Sendable, Equatable {
  /// Networks of different sizes have prefixes of different lengths.
  package let prefix: ArraySlice<UInt8>
  /// How many times the limit of one address it has: many customers may share the larger ones.
  package let allowance: Int
}

/// The addresses that share a prefix (CIDR).
package struct AddressRange: Sendable, Equatable {
  private let base: ClientAddress
  private let bits: Int

  /// Reads `ADDRESS` or `ADDRESS/BITS`. - Returns: nil for anything else.
  package init?(text: some StringProtocol) {
    let parts = text.split(separator: "/", omittingEmptySubsequences: false)
    guard (1...2).contains(parts.count), let base = ClientAddress(text: String(parts[0])) else { return nil }
    let width = base.bytes.count * 8
    guard parts.count == 2 else {
      (self.base, bits) = (base, width)
      return
    }
    guard parts[1].utf8.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }), let bits = Int(parts[1]), bits <= width else {
      return nil
    }
    (self.base, self.bits) = (base, bits)
  }

  package func contains(_ address: ClientAddress) -> Bool {
    guard address.bytes.count == base.bytes.count else { return false }
    return base.bytes.indices.allSatisfy { index in
      let kept = min(8, max(0, bits - index * 8))
      let mask = UInt8(truncatingIfNeeded: 0xFF << (8 - kept))
      return base.bytes[index] & mask == address.bytes[index] & mask
    }
  }
}
