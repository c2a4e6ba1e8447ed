import RelayCore

/// `ask`: reads what an account has asked for, and remembers it for longer.
enum AskScript {
  static let script = RedisScript(
    """
    -- KEYS[1] the account's sketch. ARGV: the time in milliseconds, or '' for this server's, and how long the sketch is kept
    -- without being asked for, in milliseconds.
    -- Returns the time, and the sketch, '' for none.
    local now = tonumber(ARGV[1])
    if not now then
      local time = redis.call('TIME')
      now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
    end
    local sketch = redis.call('GET', KEYS[1])
    if sketch then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
    return {now, sketch or ''}
    """)

  /// - Parameter now: nil for the server's time.
  static func arguments(now: Timestamp?, memory: Duration) -> [String] {
    [now.map(\.description) ?? "", String(Int64(memory / .milliseconds(1)))]
  }

  /// - Returns: nil for an answer that the script does not give.
  static func found(_ reply: RedisReply) -> (now: Timestamp, sketch: [UInt8])? {
    guard case .array(let parts) = reply, parts.count == 2, case .integer(let now) = parts[0],
      case .bytes(let sketch) = parts[1]
    else { return nil }
    return (Timestamp(millis: now), sketch)
  }
}

/// `spend`: puts a sketch in the place of the one that was read, unless somebody was faster.
enum SpendScript {
  // The process finds out what is added, from the bits that `ask` read: setting thousands of bits one by one would
  // block this server for longer. A sketch's header is another after every change.
  static let script = RedisScript(
    """
    -- KEYS[1] the account's sketch. ARGV: the header of the one to be replaced, '' for none, the new one, and how long it is
    -- kept without being asked for, in milliseconds.
    -- Returns 1; 0, and changes nothing, when another one stands there by now.
    if redis.call('GETRANGE', KEYS[1], 0, \(ContactSketch.headerBytes - 1)) ~= ARGV[1] then return 0 end
    redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
    return 1
    """)

  static func arguments(replacing former: [UInt8], with sketch: ContactSketch, memory: Duration) -> [[UInt8]] {
    [
      Array(former.prefix(ContactSketch.headerBytes)), sketch.bytes,
      Array(String(Int64(memory / .milliseconds(1))).utf8),
    ]
  }

  /// - Returns: nil for an answer that the script does not give.
  static func isStored(_ reply: RedisReply) -> Bool? {
    guard case .integer(let count) = reply else { return nil }
    return count == 1
  }
}
