import RelayCore

/// `take`: charges leaky buckets for several takes, of each all of its buckets or none, atomically (reference 3.6 as
/// corrected). The same rule as `LeakyBucket`.
enum TakeScript {
  // The state is space and time as two IEEE doubles, so that no fraction of a charge is lost. As text they cost Redis a
  // quarter more.
  // Whole-script replication (Redis before 5) would refuse TIME before a write; every supported version replicates
  // effects.
  static let script = RedisScript(
    """
    -- KEYS the buckets, those of one take all different. ARGV: the time in milliseconds, or '' for this server's; then of
    -- each take the number of its buckets, and of each of them its size, the space that returns per millisecond, the amount,
    -- and the life of the state in milliseconds.
    -- Returns of each take 0 when all are charged; when one refuses, the longest wait in milliseconds, -1 when waiting cannot
    -- help.
    local call, tonumber, min, max = redis.call, tonumber, math.min, math.max
    local now = tonumber(ARGV[1])
    if not now then
      local time = call('TIME')
      now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
    end
    local answers, first, place = {}, 0, 2
    while first < #KEYS do
      local count = tonumber(ARGV[place])
      local left, times, wait = {}, {}, 0
      for index = 1, count do
        local at = place + index * 4
        local size, rate, amount = tonumber(ARGV[at - 3]), tonumber(ARGV[at - 2]), tonumber(ARGV[at - 1])
        local space, updated = size, now
        local state = call('GET', KEYS[first + index])
        if state then space, updated = struct.unpack('<dd', state) end
        local available = min(size, space + max(0, now - updated) * rate)
        if available < amount then
          if amount > size or rate <= 0 then
            wait = -1
            break
          end
          wait = max(wait, math.ceil((amount - available) / rate))
        end
        left[index], times[index] = available - amount, max(now, updated)
      end
      if wait == 0 then
        for index = 1, count do
          call('SET', KEYS[first + index], struct.pack('<dd', left[index], times[index]), 'PX', ARGV[place + index * 4])
        end
      end
      answers[#answers + 1] = wait
      first, place = first + count, place + 1 + count * 4
    end
    return answers
    """)

  /// - Parameters:
  ///   - takes: of each its charges, one at least, in the order of the keys.
  ///   - now: nil for the server's time.
  static func arguments(_ takes: some Sequence<[(amount: Double, bucket: Bucket)]>, now: Timestamp?) -> [String] {
    var arguments = [now.map(\.description) ?? ""]
    for charges in takes {
      arguments.append(String(charges.count))
      for (amount, bucket) in charges {
        let life = min(max(1, bucket.refillMillis), lifeMillisMax)
        arguments += [String(bucket.size), String(bucket.perMillisecond), String(amount), String(life)]
      }
    }
    return arguments
  }

  /// - Returns: nil for an answer that the script does not give.
  static func decisions(_ reply: RedisReply) -> [LimitDecision]? {
    guard case .array(let waits) = reply else { return nil }
    var decisions: [LimitDecision] = []
    decisions.reserveCapacity(waits.count)
    for wait in waits {
      guard case .integer(let wait) = wait else { return nil }
      switch wait {
      case 0: decisions.append(.allowed)
      case 1...: decisions.append(.refused(retryAfter: .milliseconds(wait)))
      default: decisions.append(.refused(retryAfter: nil))
      }
    }
    return decisions
  }

  /// A year: for buckets that hardly refill.
  private static let lifeMillisMax: Int64 = 365 * Timestamp.millisPerDay
}
