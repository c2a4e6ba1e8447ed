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
