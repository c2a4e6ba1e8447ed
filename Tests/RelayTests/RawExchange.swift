import Foundation
import Glibc
import TestSupport

/// Plain bytes to a relay and plain bytes back, for what no HTTP client would send.
enum RawExchange {
  struct Outcome: Sendable {
    /// The status of the first answer; nil when the relay closed, or stayed silent, without one.
    var status: Int?
    var text: String
  }

  /// Sends `head`, then `bodyBytes` bytes of filler, reading meanwhile; ends when the relay has closed, or when all
  /// is sent and an answer is there. Bytes that the relay does not take any more are not sent.
  static func send(
    _ head: [UInt8], bodyBytes: Int = 0, isChunked: Bool = false, to port: Int, patience: Int = 20
  ) async throws -> Outcome {
    try await Loopback.blocking {
      let descriptor = try Loopback.connect(to: port, patience: patience)
      defer { close(descriptor) }
      return run(descriptor, head, bodyBytes: bodyBytes, isChunked: isChunked, patience: patience)
    }
  }

  /// Sends `head`, waits for `meanwhile`, and sends `body` then.
  static func send(
    _ head: [UInt8], then body: [UInt8], to port: Int, patience: Int = 20, meanwhile: () async throws -> Void
  ) async throws -> Outcome {
    let descriptor = try await Loopback.blocking {
      let descriptor = try Loopback.connect(to: port, patience: patience)
      let count = head.withUnsafeBytes { Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
      guard count == head.count else {
        close(descriptor)
        throw TestFailure("the head was not taken")
      }
      return descriptor
    }
    defer { close(descriptor) }
    try await meanwhile()
    return try await Loopback.blocking { run(descriptor, body, bodyBytes: 0, isChunked: false, patience: patience) }
  }

  private static func run(
    _ descriptor: Int32, _ head: [UInt8], bodyBytes: Int, isChunked: Bool, patience: Int
  ) -> Outcome {
    var received: [UInt8] = []
    var outgoing = head[...]
    var left = bodyBytes
    var isFinished = bodyBytes == 0
    while true {
      if outgoing.isEmpty, !isFinished {
        outgoing = next(&left, isChunked: isChunked)[...]
        isFinished = outgoing.isEmpty
      }
      if outgoing.isEmpty, isFinished, status(of: received) != nil { return outcome(received) }
      var poller = pollfd(fd: descriptor, events: Int16(POLLIN) | (outgoing.isEmpty ? 0 : Int16(POLLOUT)), revents: 0)
      guard poll(&poller, 1, Int32(patience * 1000)) > 0 else { return outcome(received) }
      if poller.revents & Int16(POLLIN | POLLHUP | POLLERR) != 0 {
        var buffer = [UInt8](repeating: 0, count: 16 << 10)
        let count = recv(descriptor, &buffer, buffer.count, Int32(MSG_DONTWAIT))
        if count == 0 || (count < 0 && errno != EAGAIN) { return outcome(received) }
        if count > 0, received.count < 64 << 10 { received += buffer.prefix(count) }
      }
      if poller.revents & Int16(POLLOUT) != 0 {
        let flags = Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT)
        let count = outgoing.withUnsafeBytes { Glibc.send(descriptor, $0.baseAddress, $0.count, flags) }
        if count > 0 {
          outgoing = outgoing.dropFirst(count)
        } else if errno != EAGAIN {
          // The relay takes no more; what it said before is still to be read.
          outgoing = []
          (left, isFinished) = (0, true)
        }
      }
    }
  }

  /// Up to 256 KiB of a JSON string that never ends; empty when all was sent.
  private static func next(_ left: inout Int, isChunked: Bool) -> [UInt8] {
    guard left > 0 else { return [] }
    let count = min(left, 256 << 10)
    left -= count
    let filler = [UInt8](repeating: UInt8(ascii: "a"), count: count)
    guard isChunked else { return filler }
    return Array("\(String(count, radix: 16))\r\n".utf8) + filler + Array((left == 0 ? "\r\n0\r\n\r\n" : "\r\n").utf8)
  }

  private static func outcome(_ received: [UInt8]) -> Outcome {
    Outcome(status: status(of: received), text: String(decoding: received, as: UTF8.self))
  }

  private static func status(of received: [UInt8]) -> Int? {
    let line = String(decoding: received.prefix(16), as: UTF8.self).split(separator: " ")
    guard line.count >= 2, line[0].hasPrefix("HTTP/1.") else { return nil }
    return Int(line[1].prefix(3))
  }
}
