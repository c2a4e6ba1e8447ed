import Crypto
import Foundation
import RelayCore

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

/// The way of commands to Redis: over one connection, or over one to each node of a cluster.
enum RedisCommands: Sendable {
  case one(RedisConnection)
  case cluster(RedisCluster)

  /// The slot of a key: keys of one call must share it. One server has them all in slot 0.
  func slot(of key: String) -> Int {
    switch self {
    case .one: 0
    case .cluster: RedisSlot.of(key)
    }
  }

  /// Ranges of slots. A node of a cluster has some of them, or most of one.
  var lanes: Int {
    switch self {
    case .one: 1
    case .cluster: 16
    }
  }

  /// - Returns: below `lanes`.
  func lane(of key: String) -> Int { slot(of: key) * lanes / RedisSlot.count }

  /// - Parameter key: of the keys of `command`, which lie in one slot.
  /// - Returns: as `RedisConnection.call`.
  func call(_ command: RedisCommand, key: String) async -> RedisReply? {
    switch self {
    case .one(let connection): await connection.call(command)
    case .cluster(let cluster): await cluster.call(command, slot: RedisSlot.of(key))
    }
  }

  /// Runs `script` on `keys`, one or more in one slot, by its digest where Redis knows it.
  /// - Returns: as `call`.
  func run(_ script: RedisScript, keys: [String], _ arguments: [String]) async -> RedisReply? {
    await run(script, key: keys[0], [String(keys.count)] + keys + arguments, bytes: [])
  }

  /// - Parameter arguments: any bytes.
  func run(_ script: RedisScript, keys: [String], bytes arguments: [[UInt8]]) async -> RedisReply? {
    await run(script, key: keys[0], [String(keys.count)] + keys, bytes: arguments)
  }

  private func run(_ script: RedisScript, key: String, _ rest: [String], bytes: [[UInt8]]) async -> RedisReply? {
    let reply = await call(RedisCommand(["EVALSHA", script.digest] + rest, bytes: bytes), key: key)
    guard case .error(code: "NOSCRIPT") = reply else { return reply }
    return await call(RedisCommand(["EVAL", script.source] + rest, bytes: bytes), key: key)
  }

  /// Says `text` on `channel`: in a cluster at the node that has the channel's slot, where its listeners are.
  /// - Returns: as `call`; if it was said, how many listened there.
  func publish(_ text: String, on channel: String) async -> RedisReply? {
    guard case .cluster = self else { return await call(RedisCommand("PUBLISH", channel, text), key: channel) }
    let reply = await call(RedisCommand("SPUBLISH", channel, text), key: channel)
    // A server of before version 7 knows no channels of shards.
    guard case .error(code: "ERR") = reply else { return reply }
    return await call(RedisCommand("PUBLISH", channel, text), key: channel)
  }

  /// Whether a script may say something on any channel, and learn who listens. In a cluster listeners may be elsewhere.
  var scriptsReachListeners: Bool { if case .one = self { true } else { false } }

  /// The clock of the server that has `key`, as it was told last; nil until then.
  func clock(for key: String) -> ServerClock? { connection(for: key)?.clock }

  /// Asks for that clock anew. - Returns: whether the server told it.
  func askTime(for key: String) async -> Bool { await connection(for: key)?.askTime() ?? false }

  /// The protocol that encrypts the connections; nil in clear.
  var encryption: String? {
    switch self {
    case .one(let connection): connection.encryption
    case .cluster(let cluster): cluster.anyConnection?.encryption
    }
  }

  private func connection(for key: String) -> RedisConnection? {
    switch self {
    case .one(let connection): connection
    case .cluster(let cluster): cluster.connection(for: RedisSlot.of(key))
    }
  }

  /// Hands `items` to `body` together where one server has them all, else in groups whose keys lie in one slot, side by
  /// side.
  /// - Parameter items: one at least.
  func apart<Item: Sendable, Answer: Sendable>(
    _ items: ArraySlice<Item>, by key: (Item) -> String,
    _ body: @escaping @Sendable (ArraySlice<Item>) async -> Answer
  ) async -> [Answer] {
    guard case .cluster = self else { return [await body(items)] }
    let groups = Dictionary(grouping: items) { RedisSlot.of(key($0)) }.values
    return await withTaskGroup(of: Answer.self) { tasks in
      for group in groups { tasks.addTask { await body(group[...]) } }
      var answers: [Answer] = []
      for await answer in tasks { answers.append(answer) }
      return answers
    }
  }
}
