import RelayCore

/// `take`: charges one leaky bucket, atomically (reference 3.6 as corrected). The same rule as `LeakyBucket`.
enum TakeScript {
  // The state is "SPACE TIME", the space a real number with all its digits, so that no fraction of a charge is lost.
  // Whole-script replication (Redis before 5) would refuse TIME before a write; every supported version replicates
  // effects.
  static let script = RedisScript(
    """
    -- KEYS[1] the bucket. ARGV: size, space that returns per millisecond, amount, life of the state in milliseconds,
    -- and the time in milliseconds, or '' for this server's.
    -- Returns 0 when charged; the milliseconds to wait when refused, -1 when waiting cannot help.
    local size, rate, amount = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
    local now = tonumber(ARGV[5])
    if not now then
      local time = redis.call('TIME')
      now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
    end
    local space, updated = size, now
    local state = redis.call('GET', KEYS[1])
    if state then
      local split = string.find(state, ' ', 1, true)
      space, updated = tonumber(string.sub(state, 1, split - 1)), tonumber(string.sub(state, split + 1))
    end
    local available = math.min(size, space + math.max(0, now - updated) * rate)
    if available < amount then
      if amount > size or rate <= 0 then return -1 end
      return math.ceil((amount - available) / rate)
    end
    redis.call('SET', KEYS[1], string.format('%.17g %.0f', available - amount, math.max(now, updated)), 'PX', ARGV[4])
    return 0
    """)

  /// - Parameter now: nil for the server's time.
  static func arguments(_ amount: Double, from bucket: Bucket, now: Timestamp?) -> [String] {
    let life = min(max(1, bucket.refillMillis), lifeMillisMax)
    return [
      String(bucket.size), String(bucket.perMillisecond), String(amount), String(life), now.map(\.description) ?? "",
    ]
  }

  /// - Returns: nil for an answer that the script does not give.
  static func decision(_ reply: RedisReply) -> LimitDecision? {
    guard case .integer(let wait) = reply else { return nil }
    switch wait {
    case 0: return .allowed
    case 1...: return .refused(retryAfter: .milliseconds(wait))
    default: return .refused(retryAfter: nil)
    }
  }

  /// A year: for buckets that hardly refill.
  private static let lifeMillisMax: Int64 = 365 * Timestamp.millisPerDay
}
