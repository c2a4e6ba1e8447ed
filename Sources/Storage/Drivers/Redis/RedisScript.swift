import Crypto
import Foundation

/// A Lua script, which Redis runs as one step.
struct RedisScript: Sendable {
  let source: String
  /// How EVALSHA names it: lower-case hex of SHA-1, Redis's own choice.
  let digest: String

  init(_ source: String) {
    self.source = source
    digest = Insecure.SHA1.hash(data: Data(source.utf8)).map { byte in
      (byte < 16 ? "0" : "") + String(byte, radix: 16)
    }.joined()
  }
}

extension RedisConnection {
  /// Runs `script` on `keys`, by its digest where Redis knows it.
  ///
  /// Any keys may stand together: the scripts are for one Redis, not for a cluster of them, which would want all keys
  /// of a script in one slot.
  /// - Returns: as `call`.
  func run(_ script: RedisScript, keys: [String], _ arguments: [String]) async -> RedisReply? {
    await run(script, [String(keys.count)] + keys + arguments, bytes: [])
  }

  /// - Parameter arguments: any bytes.
  func run(_ script: RedisScript, keys: [String], bytes arguments: [[UInt8]]) async -> RedisReply? {
    await run(script, [String(keys.count)] + keys, bytes: arguments)
  }

  private func run(_ script: RedisScript, _ rest: [String], bytes: [[UInt8]]) async -> RedisReply? {
    let reply = await call(RedisCommand(["EVALSHA", script.digest] + rest, bytes: bytes))
    guard case .error(code: "NOSCRIPT") = reply else { return reply }
    return await call(RedisCommand(["EVAL", script.source] + rest, bytes: bytes))
  }
}
