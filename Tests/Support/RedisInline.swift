import Foundation
import Glibc

/// Asks servers, sentinels and nodes of tests in Redis's protocol, over a connection for each question.
package enum RedisInline {
  /// Sends one inline command.
  /// - Returns: the parts of the answer in order, arrays laid flat; a number or a status as its text, nil as "".
  /// - Throws: `TestFailure` for an error, which it names, and where there is no answer within 20 seconds.
  package static func ask(_ line: String, port: Int, password: String? = nil) throws -> [String] {
    let descriptor = try Loopback.connect(to: port, patience: 20)
    defer { close(descriptor) }
    var answer = Answer(descriptor: descriptor)
    if let password {
      try send("AUTH \(password)", to: descriptor)
      _ = try answer.next()
    }
    try send(line, to: descriptor)
    return try answer.next()
  }

  private static func send(_ line: String, to descriptor: Int32) throws {
    let request = Array("\(line)\r\n".utf8)
    guard Glibc.send(descriptor, request, request.count, Int32(MSG_NOSIGNAL)) == request.count else {
      throw TestFailure("send: errno \(errno)")
    }
  }

  private struct Answer {
    let descriptor: Int32
    private var received: [UInt8] = []

    init(descriptor: Int32) { self.descriptor = descriptor }

    mutating func next() throws -> [String] {
      let line = try line()
      let rest = String(line.dropFirst())
      switch line.first {
      case "+", ":": return [rest]
      case "$": return [try text(of: Int(rest) ?? -1)]
      case "*":
        var parts: [String] = []
        for _ in 0..<max(0, Int(rest) ?? 0) { parts += try next() }
        return parts
      default: throw TestFailure(rest)
      }
    }

    private mutating func line() throws -> String {
      while true {
        if let end = received.firstIndex(of: UInt8(ascii: "\n")) {
          let line = String(decoding: received[..<end].filter { $0 != UInt8(ascii: "\r") }, as: UTF8.self)
          received.removeSubrange(...end)
          return line
        }
        try read()
      }
    }

    private mutating func text(of count: Int) throws -> String {
      guard count >= 0 else { return "" }
      while received.count < count + 2 { try read() }
      let text = String(decoding: received.prefix(count), as: UTF8.self)
      received.removeFirst(count + 2)
      return text
    }

    private mutating func read() throws {
      var buffer = [UInt8](repeating: 0, count: 4096)
      let count = recv(descriptor, &buffer, buffer.count, 0)
      guard count > 0 else { throw TestFailure("Redis gave no answer") }
      received += buffer.prefix(count)
    }
  }
}
