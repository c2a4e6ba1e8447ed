import RelayCore

/// `space`: what is free in a bucket of `take`, which stays as it is.
enum SpaceScript {
  static let script = RedisScript(
    """
    -- KEYS[1] the bucket. ARGV: the time in milliseconds, or '' for this server's, the size, and the space that returns
    -- per millisecond.
    -- Returns the free space as text, since a number would lose its fraction.
    local now, size, rate = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
    if not now then
      local time = redis.call('TIME')
      now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
    end
    local space, updated = size, now
    local state = redis.call('GET', KEYS[1])
    if state then space, updated = struct.unpack('<dd', state) end
    return string.format('%.17g', math.min(size, space + math.max(0, now - updated) * rate))
    """)

  /// - Parameter now: nil for the server's time.
  static func arguments(_ bucket: Bucket, now: Timestamp?) -> [String] {
    [now.map(\.description) ?? "", String(bucket.size), String(bucket.perMillisecond)]
  }

  /// - Returns: nil for an answer that the script does not give.
  static func space(_ reply: RedisReply) -> Double? {
    guard case .bytes(let digits) = reply else { return nil }
    return Double(String(decoding: digits, as: UTF8.self))
  }
}
