// The means by which rules act: requests, and the accounts they act on.

import RelayClient
import RelayCore
import Synchronization

/// One run against one server. Rules share nothing but it; each makes the accounts that it needs.
struct Session: Sendable {
  let target: Target
  let numbers: FreshNumbers
  /// Peers of the server, by the names it has for them; may be empty.
  let relays: [String]
  /// A peer of the server that may be spoken to as well; nil where there is none.
  var across: Target?

  /// The same run at the peer. - Throws: `RuleSkipped` when none was named.
  func far() throws -> Session {
    guard let across else { throw RuleSkipped(reason: "needs --across") }
    return Session(target: across, numbers: numbers, relays: [])
  }

  /// How long a limit may ask to wait for it to be waited out.
  private static let waitMax = 5
  private static let waits = 3

  /// Sends `exchange`, and again when a limit asks to wait for a moment.
  /// - Throws: `RuleLimited` when that is too long; `RuleFailure` when there is no answer.
  func send(_ exchange: Exchange) async throws -> Answer {
    for _ in 0..<Self.waits {
      let answer = try await target.send(exchange)
      guard answer.status == 413 else { return answer }
      // Without `Retry-After` the request itself is too large, or the server is an old one: the rule judges.
      guard let seconds = answer.retryAfter else { return answer }
      guard seconds <= Self.waitMax else { throw RuleLimited(retryAfter: seconds) }
      try await Task.sleep(for: .seconds(max(1, seconds)))
    }
    throw RuleLimited(retryAfter: nil)
  }

  /// Sends a request as the protocol's clients would; `extra` headers stand in place of those of the same name.
  func ask(
    _ method: String, _ path: String, _ body: JSON? = nil, as device: Device? = nil, extra: [(String, String)] = []
  ) async throws -> Answer {
    try await send(exchange(method, path, body, as: device, extra: extra))
  }

  func get(_ path: String, as device: Device? = nil) async throws -> Answer { try await ask("GET", path, as: device) }
  func put(_ path: String, _ body: JSON? = nil, as device: Device? = nil) async throws -> Answer {
    try await ask("PUT", path, body, as: device)
  }
  func post(_ path: String, _ body: JSON? = nil, as device: Device? = nil) async throws -> Answer {
    try await ask("POST", path, body, as: device)
  }
  func delete(_ path: String, as device: Device? = nil) async throws -> Answer {
    try await ask("DELETE", path, as: device)
  }

  /// The request that `ask` sends, to be changed.
  func exchange(
    _ method: String, _ path: String, _ body: JSON? = nil, as device: Device? = nil, extra: [(String, String)] = []
  ) throws -> Exchange {
    var exchange = Exchange(method, path)
    if let body {
      exchange.body = .whole(try body.bytes())
      exchange.headers.append(("Content-Type", "application/json"))
    }
    if let device { exchange.headers.append(("Authorization", device.authorization)) }
    exchange.headers.removeAll { header in extra.contains { $0.0.lowercased() == header.name.lowercased() } }
    exchange.headers += extra.map { (name: $0.0, value: $0.1) }
    return exchange
  }
}

/// Numbers that nothing else has: a prefix, then digits that count up from where this run began at random.
final class FreshNumbers: Sendable {
  /// `+` and 1 to 8 digits that no country code begins with: no gateway can reach them.
  static let defaultPrefix = "+999"
  private static let digits = 14
  private let prefix: String
  private let space: Int
  private let next: Mutex<Int>

  /// - Returns: nil unless `prefix` is `+`, a digit from 1 to 9, and at most seven further digits.
  init?(prefix: String) {
    let tail = prefix.utf8.dropFirst()
    guard prefix.hasPrefix("+"), (1...8).contains(tail.count), tail.first != UInt8(ascii: "0"),
      tail.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 })
    else { return nil }
    self.prefix = prefix
    space = (0..<(Self.digits - tail.count)).reduce(1) { power, _ in power * 10 }
    next = Mutex(Int.random(in: 0..<space))
  }

  /// `+` and 14 digits.
  func draw() -> String {
    let value = next.withLock { next in
      next = (next + 1) % space
      return next
    }
    let tail = String(value)
    return prefix + String(repeating: "0", count: String(space).count - 1 - tail.count) + tail
  }

  /// One whose contact token is as `condition` says.
  func draw(tokenWhere condition: (String) -> Bool) throws -> String {
    for _ in 0..<100_000 {
      let number = draw()
      if condition(try Token.of(number)) { return number }
    }
    throw RuleSkipped(reason: "no number with such a token was found")
  }
}

enum Token {
  /// 14 characters of unpadded base64 (reference 2.1).
  static func of(_ number: String) throws -> String {
    guard let number = PhoneNumber(number) else { throw RuleSkipped(reason: "the prefix of numbers makes no number") }
    return ContactTokens.token(for: number)
  }
  static func urlSafe(_ token: String) -> String { Base64.encodeURLSafe(Base64.decode(token) ?? []) }
}
