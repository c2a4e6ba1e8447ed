import Foundation
import Glibc
import Synchronization
import TestSupport

/// A server that passes everything on to a relay but for what a defect changes: it shows that a test would notice.
///
/// One request or WebSocket a connection, each on a thread of its own.
final class DefectiveServer: Sendable {
  /// An answer as its parts.
  struct Reply: Sendable {
    var status: Int
    /// Whole lines, without the ones that frame the body.
    var headers: [String] = []
    var body: [UInt8] = []

    var text: String {
      get { String(decoding: body, as: UTF8.self) }
      set { body = Array(newValue.utf8) }
    }
  }

  /// - Parameters:
  ///   - request: its request line.
  ///   - reply: what the relay answered.
  typealias Defect = @Sendable (_ request: String, _ reply: Reply) -> Reply

  let port: Int
  private let descriptor: Int32
  private let relayPort: Int?
  private let defect: Defect
  private let socketDefect: SocketDefect
  private let isClosed = Mutex(false)

  /// - Parameter relayPort: nil answers everything with an empty 200, which the defect may change.
  init(
    inFrontOf relayPort: Int?, defect: @escaping Defect, socketDefect: @escaping SocketDefect = { [$0] }
  ) throws {
    (descriptor, port) = try Loopback.listen()
    self.relayPort = relayPort
    self.defect = defect
    self.socketDefect = socketDefect
    Thread.detachNewThread { [self] in
      while true {
        let connection = accept(descriptor, nil, nil)
        guard connection >= 0 else { break }
        Thread.detachNewThread { [self] in
          serve(connection)
          Glibc.close(connection)
        }
      }
      // The listening socket is this thread's alone: its number may be another file's from here on.
      isClosed.withLock { isClosed in
        isClosed = true
        Glibc.close(descriptor)
      }
    }
  }

  var url: String { "http://127.0.0.1:\(port)" }

  /// Takes no more connections; may be called again.
  func close() {
    isClosed.withLock { isClosed in
      if !isClosed { shutdown(descriptor, Int32(SHUT_RDWR)) }
    }
  }

  private func serve(_ connection: Int32) {
    guard let request = Self.read(from: connection, until: Self.isWhole) else { return }
    if let relayPort, SocketBridge.serve(request, from: connection, to: relayPort, socketDefect) { return }
    let line = String(decoding: request.prefix { $0 != UInt8(ascii: "\r") }, as: UTF8.self)
    guard let reply = relayPort.map({ Self.forward(request, to: $0) }) ?? Reply(status: 200) else { return }
    let changed = defect(line, reply)
    let head =
      ["HTTP/1.1 \(changed.status) X"] + changed.headers
      + ["Content-Length: \(changed.body.count)", "Connection: close", "", ""]
    Self.write(Array(head.joined(separator: "\r\n").utf8) + changed.body, to: connection)
  }

  /// Asks the relay over a connection of its own. - Returns: nil when it gives no answer.
  private static func forward(_ request: [UInt8], to port: Int) -> Reply? {
    // A relay that cannot be reached has no answer: neither has this server then.
    guard let relay = try? Loopback.connect(to: port, patience: 20), let end = end(of: request) else { return nil }
    defer { Glibc.close(relay) }
    write(Array(request[..<end]) + Array("\r\nConnection: close".utf8) + Array(request[end...]), to: relay)
    guard let answer = read(from: relay, until: { _ in false }), let end = self.end(of: answer) else { return nil }
    let lines = String(decoding: answer[..<end], as: UTF8.self).components(separatedBy: "\r\n")
    let framing = ["content-length", "transfer-encoding", "connection"]
    return Reply(
      status: lines[0].split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0,
      headers: lines.dropFirst().filter { line in !framing.contains { line.lowercased().hasPrefix($0 + ":") } },
      body: Array(answer[(end + 4)...]))
  }

  /// The offset of the empty line behind the head.
  private static func end(of message: [UInt8]) -> Int? {
    let mark = Array("\r\n\r\n".utf8)
    guard message.count >= mark.count else { return nil }
    return (0...(message.count - mark.count)).first {
      message[$0] == mark[0] && message[$0..<($0 + 4)].elementsEqual(mark)
    }
  }

  /// Whether head and body are there; bodies have a length.
  private static func isWhole(_ message: [UInt8]) -> Bool {
    guard let end = end(of: message) else { return false }
    let lines = String(decoding: message[..<end], as: UTF8.self).lowercased().components(separatedBy: "\r\n")
    let length = lines.first { $0.hasPrefix("content-length:") }?.dropFirst(15).trimmingCharacters(in: .whitespaces)
    return message.count >= end + 4 + (length.flatMap { Int($0) } ?? 0)
  }

  /// - Returns: nil when the other side closed before `isWhole`, unless nothing else can end it.
  private static func read(from descriptor: Int32, until isWhole: ([UInt8]) -> Bool) -> [UInt8]? {
    var bytes: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 64 << 10)
    while !isWhole(bytes) {
      let count = recv(descriptor, &buffer, buffer.count, 0)
      guard count > 0 else { return bytes.isEmpty ? nil : bytes }
      bytes += buffer.prefix(count)
    }
    return bytes
  }

  private static func write(_ bytes: [UInt8], to descriptor: Int32) {
    var rest = bytes[...]
    while !rest.isEmpty {
      let count = rest.withUnsafeBytes { send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
      guard count > 0 else { return }  // A caller that went away learns nothing.
      rest = rest.dropFirst(count)
    }
  }
}
