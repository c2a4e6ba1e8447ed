import Glibc
import TestSupport

/// A plain connection, for what no HTTP client would do.
final class RawConnection: Sendable {
  private let descriptor: Int32

  init(to port: Int) throws { descriptor = try Loopback.connect(to: port, patience: 20) }

  deinit { Glibc.close(descriptor) }

  /// Ends it in both directions.
  func close() { shutdown(descriptor, Int32(SHUT_RDWR)) }

  func send(_ text: String) throws {
    var rest = Array(text.utf8)[...]
    while !rest.isEmpty {
      let sent = rest.withUnsafeBytes { Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
      guard sent > 0 else { throw TestFailure("send: errno \(errno)") }
      rest = rest.dropFirst(sent)
    }
  }

  /// The bytes until the answer's head and the text behind it are there.
  func answer() async throws -> String {
    try await Loopback.blocking {
      var text = ""
      var buffer = [UInt8](repeating: 0, count: 4096)
      while !text.hasSuffix("\n") || text.hasSuffix("\r\n") {
        let count = recv(self.descriptor, &buffer, buffer.count, 0)
        guard count > 0 else { throw TestFailure("no answer but: \(text)") }
        text += String(decoding: buffer.prefix(count), as: UTF8.self)
      }
      return text
    }
  }

  /// All that comes to the end of the connection.
  func text() async throws -> String {
    try await Loopback.blocking {
      var text = ""
      var buffer = [UInt8](repeating: 0, count: 4096)
      while true {
        let count = recv(self.descriptor, &buffer, buffer.count, 0)
        guard count > 0 else { return text }
        text += String(decoding: buffer.prefix(count), as: UTF8.self)
      }
    }
  }

  /// Waits until something has come, and leaves it.
  func waitForBytes() async throws {
    try await Loopback.blocking {
      var byte: UInt8 = 0
      guard recv(self.descriptor, &byte, 1, Int32(MSG_PEEK)) == 1 else { throw TestFailure("nothing came") }
    }
  }

  /// Reads to the end of the connection. - Returns: how many bytes came.
  func drain() async throws -> Int {
    try await Loopback.blocking {
      var total = 0
      var buffer = [UInt8](repeating: 0, count: 256 << 10)
      while true {
        let count = recv(self.descriptor, &buffer, buffer.count, 0)
        if count == 0 || (count < 0 && errno == ECONNRESET) { return total }
        guard count > 0 else { throw TestFailure("the connection stays open: errno \(errno)") }
        total += count
      }
    }
  }
}
