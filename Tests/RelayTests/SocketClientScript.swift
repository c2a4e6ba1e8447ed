import Crypto
import Foundation
import Glibc
import RelayClient
import Synchronization
import TestSupport

/// A server that takes one connection after the other, answers each upgrade as a script says, and sends whatever the
/// script holds, well-formed or not.
final class ScriptedSocketServer: Sendable {
  enum Answer: Sendable {
    /// 101 with the right key, and these bytes behind it in the same packet; then it listens until the client closes.
    case upgrade([UInt8])
    /// The same, but then the connection is dropped.
    case upgradeAndDrop([UInt8])
    /// The bytes as they are; then the connection is dropped.
    case raw(String)
    /// Nothing, until the client goes away.
    case silence
  }

  let port: Int
  private let descriptor: Int32
  private let script: @Sendable (_ head: String) -> Answer
  /// The bytes that clients sent behind their upgrades.
  private let received = Mutex<[UInt8]>([])

  init(_ script: @escaping @Sendable (_ head: String) -> Answer) throws {
    (descriptor, port) = try Loopback.listen()
    self.script = script
    Thread.detachNewThread { [self] in
      while true {
        let connection = accept(descriptor, nil, nil)
        if connection == -1, errno == EINTR { continue }
        guard connection >= 0 else { break }
        serve(connection)
        Glibc.close(connection)
      }
      Glibc.close(descriptor)
    }
  }

  convenience init(_ answer: Answer) throws { try self.init { _ in answer } }

  /// Takes no more connections.
  func close() { shutdown(descriptor, Int32(SHUT_RDWR)) }

  var url: String { "http://127.0.0.1:\(port)" }
  func bytes() -> [UInt8] { received.withLock { $0 } }

  /// A frame of a server's.
  static func frame(_ opcode: UInt8, _ payload: [UInt8], isFinal: Bool = true) -> [UInt8] {
    let length: [UInt8] =
      payload.count < 126 ? [UInt8(payload.count)] : [126, UInt8(payload.count >> 8), UInt8(payload.count & 0xFF)]
    return [(isFinal ? 0x80 : 0) | opcode] + length + payload
  }

  private func serve(_ connection: Int32) {
    var head: [UInt8] = []
    while !head.contains(Array("\r\n\r\n".utf8)) {
      guard let part = receive(connection) else { return }
      head += part
    }
    let text = String(decoding: head, as: UTF8.self)
    switch script(text) {
    case .upgrade(let bytes):
      send(Array(switching(text).utf8) + bytes, connection)
      while let part = receive(connection) { received.withLock { $0 += part } }
    case .upgradeAndDrop(let bytes): send(Array(switching(text).utf8) + bytes, connection)
    case .raw(let answer): send(Array(answer.utf8), connection)
    case .silence: while receive(connection) != nil {}
    }
  }

  private func switching(_ head: String) -> String {
    let line = head.components(separatedBy: "\r\n").first { $0.lowercased().hasPrefix("sec-websocket-key:") } ?? ""
    let key = line.drop { $0 != ":" }.dropFirst().trimmingCharacters(in: .whitespaces)
    let hash = Insecure.SHA1.hash(data: Array((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").utf8))
    return "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
      + "Sec-WebSocket-Accept: \(Data(hash).base64EncodedString())\r\n\r\n"
  }

  private func receive(_ connection: Int32) -> [UInt8]? {
    var buffer = [UInt8](repeating: 0, count: 16 << 10)
    var count = -1
    // A signal, of a child's end for instance, is none of the client's doing.
    repeat { count = recv(connection, &buffer, buffer.count, 0) } while count == -1 && errno == EINTR
    return count > 0 ? Array(buffer.prefix(count)) : nil
  }

  private func send(_ bytes: [UInt8], _ connection: Int32) {
    var rest = bytes[...]
    while !rest.isEmpty {
      let count = rest.withUnsafeBytes { Glibc.send(connection, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
      guard count > 0 else { return }  // A client that went away learns nothing.
      rest = rest.dropFirst(count)
    }
  }
}
