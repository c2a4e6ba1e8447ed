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
