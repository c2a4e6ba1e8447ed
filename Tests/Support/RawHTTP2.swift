// HTTP/2 by hand: frames that no library would send, cut anywhere.

import NIOCore

/// One connection; `close()` it.
package struct RawHTTP2: Sendable {
  package struct Frame: Sendable {
    package let kind: UInt8
    package let flags: UInt8
    package let stream: UInt32
    package let payload: [UInt8]

    /// The error code of RST_STREAM and GOAWAY.
    package var errorCode: UInt32? {
      switch kind {
      case RawHTTP2.reset: RawHTTP2.number(payload.prefix(4))
      case RawHTTP2.goAway where payload.count >= 8: RawHTTP2.number(payload[4..<8])
      default: nil
      }
    }
  }

  package static let (data, headers, reset, settings): (UInt8, UInt8, UInt8, UInt8) = (0, 1, 3, 4)
  package static let (ping, goAway, windowUpdate, continuation): (UInt8, UInt8, UInt8, UInt8) = (6, 7, 8, 9)
  package static let (endStream, endHeaders): (UInt8, UInt8) = (1, 4)
  package static let protocolError: UInt32 = 1

  package let socket: RawSocket

  /// Connects, and sends preface and settings.
  package static func connect(to port: Int, trusting authority: TestAuthority) async throws -> RawHTTP2 {
    let socket = try await RawSocket.connect(to: port, trusting: authority, protocols: ["h2"])
    let connection = RawHTTP2(socket: socket)
    try await socket.send(Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) + frame(settings, stream: 0, []))
    return connection
  }

  package static func frame(_ kind: UInt8, flags: UInt8 = 0, stream: UInt32, _ payload: [UInt8]) -> [UInt8] {
    let count = payload.count
    var bytes: [UInt8] = []
    for shift in [16, 8, 0] { bytes.append(UInt8(truncatingIfNeeded: count >> shift)) }
    bytes += [kind, flags]
    for shift: UInt32 in [24, 16, 8, 0] { bytes.append(UInt8(truncatingIfNeeded: stream >> shift)) }
    return bytes + payload
  }

  /// A block of fields, each written out (RFC 7541, 6.2.2).
  package static func fields(_ fields: [(String, String)]) -> [UInt8] {
    var block: [UInt8] = []
    for (name, value) in fields {
      block.append(0)
      for text in [name, value] {
        block.append(UInt8(text.utf8.count))
        block += Array(text.utf8)
      }
    }
    return block
  }

  package static func request(
    _ method: String, _ path: String, authority: String? = "localhost", _ more: [(String, String)] = []
  ) -> [UInt8] {
    let pseudo = [(":method", method), (":scheme", "https"), (":path", path)]
    return fields(pseudo + (authority.map { [(":authority", $0)] } ?? []) + more)
  }

  package func send(_ kind: UInt8, flags: UInt8 = 0, stream: UInt32, _ payload: [UInt8]) async throws {
    try await socket.send(Self.frame(kind, flags: flags, stream: stream, payload))
  }

  /// The next frame of `stream` that is of one of `kinds`; others are passed over.
  package func next(_ kinds: [UInt8], stream: UInt32) async throws -> Frame {
    while true {
      let frame = try await socket.next("a frame") { Self.take(&$0) }
      if frame.stream == stream, kinds.contains(frame.kind) { return frame }
    }
  }

  /// The status of the next answer on `stream`; from NIOHTTP2, whose encoder has nothing of it in its table but codes
  /// in the static one (RFC 7541, A), or writes it out.
  package func status(stream: UInt32) async throws -> Int {
    let block = try await next([Self.headers], stream: stream).payload
    let known = [8: 200, 9: 204, 10: 206, 11: 304, 12: 400, 13: 404, 14: 500]
    if let first = block.first, first & 0x80 != 0 { return known[Int(first & 0x7F)] ?? 0 }
    // The name by its index in 4 or 6 bits, then the value, in plain digits or in Huffman's code.
    guard block.count > 4 else { return 0 }
    let isShort = block[0] & 0x40 != 0 || block[0] & 0xF != 0xF
    return Self.digits(Array(block.dropFirst(isShort ? 1 : 2)))
  }

  private static func digits(_ text: [UInt8]) -> Int {
    let bytes = Array(text.dropFirst().prefix(Int(text[0] & 0x7F)))
    guard text[0] & 0x80 != 0 else { return Int(String(decoding: bytes, as: UTF8.self)) ?? 0 }
    var bits: [Int] = []
    for byte in bytes {
      for shift in [7, 6, 5, 4, 3, 2, 1, 0] { bits.append(Int(byte >> shift) & 1) }
    }
    var (result, index) = (0, 0)
    // Digits have 5 bits (0 to 2) or 6 (3 to 9, from 0x19 on) in RFC 7541, B.
    while result < 100, index + 5 < bits.count {
      var code = 0
      for bit in bits[index..<index + 5] { code = code * 2 + bit }
      index += 5
      if code > 2 {
        code = code * 2 + bits[index] - 0x19 + 3
        index += 1
      }
      result = result * 10 + code
    }
    return result
  }

  private static func number(_ bytes: ArraySlice<UInt8>) -> UInt32 {
    var result: UInt32 = 0
    for byte in bytes { result = result << 8 | UInt32(byte) }
    return result
  }

  private static func take(_ bytes: inout ByteBuffer) -> Frame? {
    var copy = bytes
    guard let head = copy.readBytes(length: 9) else { return nil }
    guard let payload = copy.readBytes(length: Int(number(head[..<3]))) else { return nil }
    bytes = copy
    return Frame(kind: head[3], flags: head[4], stream: number(head[5...]), payload: payload)
  }

  package func close() async { await socket.close() }
}
