import CHiredis
import Glibc

/// One connection to a Redis. Its calls block: use it on a thread of its own.
final class RedisSession {
  private let context: UnsafeMutablePointer<redisContext>

  /// An answer that does not come within it is a failure.
  private static let limit = timeval(tv_sec: 60, tv_usec: 0)

  /// - Throws: `BenchmarkFailure` when the server does not take the connection or the password.
  init(_ server: RedisServer) throws(BenchmarkFailure) {
    guard let context = redisConnect("127.0.0.1", Int32(server.port)) else {
      throw BenchmarkFailure("hiredis has no memory")
    }
    guard context.pointee.err == 0, redisSetTimeout(context, Self.limit) == REDIS_OK else {
      redisFree(context)
      throw BenchmarkFailure("Redis does not take a connection")
    }
    self.context = context
    try send(Self.command(["AUTH", server.password].map { Array($0.utf8) }))
    _ = try answer()
  }

  deinit { redisFree(context) }

  /// A command as Redis reads it.
  static func command(_ words: [[UInt8]]) -> [UInt8] {
    var bytes = Array("*\(words.count)\r\n".utf8)
    for word in words { bytes += Array("$\(word.count)\r\n".utf8) + word + Array("\r\n".utf8) }
    return bytes
  }

  /// Hands a command over: it goes out, with those before it, when an answer is asked for that has not come yet.
  func send(_ command: [UInt8]) throws(BenchmarkFailure) {
    let outcome = command.withUnsafeBytes { bytes in
      redisAppendFormattedCommand(context, bytes.baseAddress?.assumingMemoryBound(to: CChar.self), bytes.count)
    }
    guard outcome == REDIS_OK else { throw BenchmarkFailure("hiredis has no memory") }
  }

  /// The next answer, in the order of the commands.
  /// - Returns: how many values it holds: those of an array that are not nil; 1 for any other.
  func answer() throws(BenchmarkFailure) -> Int {
    var raw: UnsafeMutableRawPointer?
    guard redisGetReply(context, &raw) == REDIS_OK, let raw else { throw BenchmarkFailure("Redis does not answer") }
    defer { freeReplyObject(raw) }
    let reply = raw.assumingMemoryBound(to: redisReply.self).pointee
    guard reply.type != REDIS_REPLY_ERROR else { throw BenchmarkFailure("Redis refuses a command") }
    guard reply.type == REDIS_REPLY_ARRAY else { return 1 }
    return (0..<reply.elements).count { reply.element?[$0]?.pointee.type == REDIS_REPLY_STRING }
  }
}
