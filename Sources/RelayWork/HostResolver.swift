import Foundation
import Glibc

/// Asks the system for the addresses of a host. Tests hand in their own answers.
package struct HostResolver: Sendable {
  /// - Returns: the addresses as texts, the best first; empty when there are none or they did not come in time; nil
  ///   when it was not asked for: too many others are.
  package let addresses: @Sendable (_ host: String, _ limit: Duration) async -> [String]?

  package init(_ addresses: @escaping @Sendable (_ host: String, _ limit: Duration) async -> [String]?) {
    self.addresses = addresses
  }

  /// The system's, on threads of their own: it blocks, and a slow name server must hold up nobody else.
  package static func system() -> HostResolver { threads(lookUp) }

  /// - Parameter lookUp: may block.
  package static func threads(_ lookUp: @escaping @Sendable (_ host: String) -> [String]) -> HostResolver {
    let threads = ResolverThreads(lookUp)
    return HostResolver { host, limit in await threads.addresses(of: host, within: limit) }
  }

  private static func lookUp(_ host: String) -> [String] {
    var hints = addrinfo()
    hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
    hints.ai_flags = AI_ADDRCONFIG
    var list: UnsafeMutablePointer<addrinfo>?
    guard getaddrinfo(host, nil, &hints, &list) == 0 else { return [] }
    defer { freeaddrinfo(list) }
    var texts: [String] = []
    var next = list
    while let info = next?.pointee {
      next = info.ai_next
      var text = [CChar](repeating: 0, count: Int(NI_MAXHOST))
      guard
        getnameinfo(info.ai_addr, info.ai_addrlen, &text, socklen_t(text.count), nil, 0, NI_NUMERICHOST) == 0
      else { continue }
      let address = String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
      if !texts.contains(address) { texts.append(address) }
    }
    return texts
  }
}
