import RelayCore

/// `take`: charges leaky buckets, all of them or none, atomically (reference 3.6 as corrected). The same rule as
/// `LeakyBucket`.
enum TakeScript {
  // The state is "SPACE TIME", the space a real number with all its digits, so that no fraction of a charge is lost.
  // Whole-script replication (Redis before 5) would refuse TIME before a write; every supported version replicates
  // effects.
  static let script = RedisScript(
    """
    -- KEYS the buckets, all different. ARGV: the time in milliseconds, or '' for this server's; then of each bucket its
    -- size, the space that returns per millisecond, the amount, and the life of the state in milliseconds.
    -- Returns 0 when all are charged; when one refuses, the longest wait in milliseconds, -1 when waiting cannot help.
    local now = tonumber(ARGV[1])
    if not now then
      local time = redis.call('TIME')
      now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
    end
    local left, times, wait = {}, {}, 0
    for index = 1, #KEYS do
      local size, rate = tonumber(ARGV[index * 4 - 2]), tonumber(ARGV[index * 4 - 1])
      local amount = tonumber(ARGV[index * 4])
      local space, updated = size, now
      local state = redis.call('GET', KEYS[index])
      if state then
        local split = string.find(state, ' ', 1, true)
        space, updated = tonumber(string.sub(state, 1, split - 1)), tonumber(string.sub(state, split + 1))
      end
      local available = math.min(size, space + math.max(0, now - updated) * rate)
      if available < amount then
        if amount > size or rate <= 0 then return -1 end
        wait = math.max(wait, math.ceil((amount - available) / rate))
      end
      left[index], times[index] = available - amount, math.max(now, updated)
    end
    if wait > 0 then return wait end
    for index = 1, #KEYS do
      redis.call('SET', KEYS[index], string.format('%.17g %.0f', left[index], times[index]), 'PX', ARGV[index * 4 + 1])
    end
    return 0
    """)

  /// - Parameters:
  ///   - charges: in the order of the keys.
  ///   - now: nil for the server's time.
  static func arguments(_ charges: [(amount: Double, bucket: Bucket)], now: Timestamp?) -> [String] {
    var arguments = [now.map(\.description) ?? ""]
    arguments.reserveCapacity(1 + 4 * charges.count)
    for (amount, bucket) in charges {
      let life = min(max(1, bucket.refillMillis), lifeMillisMax)
      arguments += [String(bucket.size), String(bucket.perMillisecond), String(amount), String(life)]
    }
    return arguments
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
