// Ports and plain sockets of the loopback address.

import Foundation
import Glibc
import Synchronization

package enum Loopback {
  /// Ports that nobody listened on just now, held until all were found. Another program may take one meanwhile.
  ///
  /// Drawn at random from below those that the system gives to outgoing connections: many tests at once, and two runs
  /// of them, seldom meet.
  package static func freePorts(_ count: Int) throws -> [Int] {
    var held: [Int32] = []
    defer { for descriptor in held { close(descriptor) } }
    var ports: [Int] = []
    for attempt in 0..<1000 where ports.count < count {
      do {
        let (descriptor, port) = try bound(to: .random(in: 10_000..<32_000))
        held.append(descriptor)
        if isNew(port) { ports.append(port) }
      } catch  where attempt < 999 {
        continue  // Taken: the next draw.
      }
    }
    return ports
  }

  /// Two callers may both be about to listen: a port is not given out again before many others were.
  private static func isNew(_ port: Int) -> Bool {
    given.withLock { given in
      if given.count > 5_000 { given.removeAll() }
      return given.insert(port).inserted
    }
  }

  private static let given = Mutex(Set<Int>())

  /// A socket that listens on a free port.
  package static func listen() throws -> (descriptor: Int32, port: Int) {
    let (descriptor, port) = try bound(to: 0)
    guard Glibc.listen(descriptor, 64) == 0 else { throw failure("listen") }
    return (descriptor, port)
  }

  /// A connected socket whose reads and writes give up after `patience` seconds.
  package static func connect(to port: Int, patience: Int) throws -> Int32 {
    let descriptor = try makeSocket()
    var limit = timeval(tv_sec: patience, tv_usec: 0)
    let size = socklen_t(MemoryLayout<timeval>.size)
    setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, size)
    setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, size)
    var address = loopback(port)
    let code = withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        Glibc.connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
      }
    }
    guard code == 0 else {
      defer { close(descriptor) }
      throw failure("connect")
    }
    return descriptor
  }

  /// The port on this side of a connected socket.
  package static func localPort(of descriptor: Int32) throws -> Int {
    var address = sockaddr_in()
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    let code = withUnsafeMutablePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(descriptor, $0, &length) }
    }
    guard code == 0 else { throw failure("getsockname") }
    return Int(UInt16(bigEndian: address.sin_port))
  }

  /// Runs blocking `body` on a thread of its own.
  package static func blocking<Value: Sendable>(_ body: @escaping @Sendable () throws -> Value) async throws -> Value {
    try await withCheckedThrowingContinuation { continuation in
      Thread.detachNewThread { continuation.resume(with: Result { try body() }) }
    }
  }

  private static func bound(to port: Int) throws -> (descriptor: Int32, port: Int) {
    let descriptor = try makeSocket()
    var address = loopback(port)
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    let code = withUnsafeMutablePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
        bind(descriptor, address, length) == 0 ? getsockname(descriptor, address, &length) : -1
      }
    }
    guard code == 0 else {
      defer { close(descriptor) }
      throw failure("bind")
    }
    return (descriptor, Int(UInt16(bigEndian: address.sin_port)))
  }

  private static func makeSocket() throws -> Int32 {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    guard descriptor >= 0 else { throw failure("socket") }
    return descriptor
  }

  private static func loopback(_ port: Int) -> sockaddr_in {
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = inet_addr("127.0.0.1")
    address.sin_port = in_port_t(UInt16(port)).bigEndian
    return address
  }

  private static func failure(_ call: String) -> TestFailure {
    TestFailure("\(call): \(String(cString: strerror(errno)))")
  }
}
