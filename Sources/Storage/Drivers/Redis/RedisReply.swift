import CHiredis

/// An answer of Redis, copied out of hiredis's memory.
enum RedisReply: Sendable, Equatable {
  case bytes([UInt8])
  case integer(Int64)
  case array([RedisReply])
  case null
  case status(String)
  /// The first word of an error (`NOSCRIPT`, `ERR`); the rest may repeat arguments and is dropped.
  case error(code: String)
  /// The error of a cluster's node that has not the slot.
  case elsewhere(RedisRedirection)

  init(_ reply: UnsafePointer<redisReply>) {
    let reply = reply.pointee
    switch reply.type {
    case REDIS_REPLY_STRING: self = .bytes(Self.bytes(of: reply))
    case REDIS_REPLY_INTEGER: self = .integer(reply.integer)
    case REDIS_REPLY_STATUS: self = .status(String(decoding: Self.bytes(of: reply), as: UTF8.self))
    case REDIS_REPLY_ARRAY:
      self = .array(
        (0..<reply.elements).map { index in
          guard let element = reply.element?[index] else { return .null }
          return RedisReply(element)
        })
    case REDIS_REPLY_ERROR:
      let text = String(decoding: Self.bytes(of: reply), as: UTF8.self)
      self = RedisRedirection(text).map { .elsewhere($0) } ?? .error(code: Self.errorCode(of: text))
    default: self = .null
    }
  }

  /// Up to version 6 Redis wraps the error of a script's call: `ERR Error running script (...): ...: -READONLY You
  /// ...`.
  static func errorCode(of text: String) -> String {
    let code = text.prefix { $0 != " " }
    guard code == "ERR", text.hasPrefix("ERR Error running script") else { return String(code) }
    return RedisLinkFault.codesRefusingAll.first { text.contains("-\($0) ") } ?? String(code)
  }

  /// A script's answer about its keys by their places. The script counts from 1; here they count from 0.
  /// - Returns: nil for anything but places below `count`.
  func places(below count: Int) -> [Int]? {
    guard case .array(let parts) = self else { return nil }
    var places: [Int] = []
    for part in parts {
      guard case .integer(let place) = part, (1...Int64(count)).contains(place) else { return nil }
      places.append(Int(place) - 1)
    }
    return places
  }

  private static func bytes(of reply: redisReply) -> [UInt8] {
    guard let start = reply.str else { return [] }
    return [UInt8](UnsafeRawBufferPointer(start: start, count: reply.len))
  }
}

/// A command as the wire wants it: RESP, binary safe. Encoded by whoever makes it, off the reactor's thread.
struct RedisCommand: Sendable {
  /// Ends with a NUL that is not sent: hiredis 0.14 looks for further arguments with C's string functions, and would
  /// read on into whatever lies behind.
  let terminated: [UInt8]
  var byteCount: Int { terminated.count - 1 }

  init(_ parts: String...) { self.init(parts) }

  init(_ parts: [String]) { self.init(parts, bytes: []) }

  /// - Parameter bytes: parts behind the others.
  init(_ parts: [String], bytes binary: [[UInt8]]) {
    var bytes: [UInt8] = []
    bytes.append(contentsOf: "*\(parts.count + binary.count)\r\n".utf8)
    for part in parts { Self.append(part.utf8, to: &bytes) }
    for part in binary { Self.append(part, to: &bytes) }
    bytes.append(0)
    terminated = bytes
  }

  private static func append(_ part: some Collection<UInt8>, to bytes: inout [UInt8]) {
    bytes.append(contentsOf: "$\(part.count)\r\n".utf8)
    bytes.append(contentsOf: part)
    bytes.append(contentsOf: [0x0D, 0x0A])
  }
}
