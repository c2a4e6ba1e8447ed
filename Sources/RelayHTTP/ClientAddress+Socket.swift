package import NIOCore
package import RelayCore

extension ClientAddress {
  /// - Returns: nil for a socket of the file system.
  package init?(_ socket: SocketAddress) {
    // The place of the address in the system's `sockaddr_in` and `sockaddr_in6`.
    let place: Range<Int>
    switch socket.protocol {
    case .inet: place = 4..<8
    case .inet6: place = 8..<24
    default: return nil
    }
    let bytes = socket.withSockAddr { address, size in
      Array(UnsafeRawBufferPointer(start: address, count: size)[place])
    }
    self.init(bytes: bytes)
  }
}
