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
    -- and the life of the state in milliseconds. A number below 0 is that of a take that follows another one: it is made if
    -- the last take with a number above 0 was allowed.
    -- Returns of each take 0 when all are charged; when one refuses, the longest wait in milliseconds, -1 when waiting cannot
    -- help, and when it is not made.
    local call, tonumber, min, max = redis.call, tonumber, math.min, math.max
    local now = tonumber(ARGV[1])
    if not now then
      local time = call('TIME')
      now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
    end
    local answers, first, place, allowed = {}, 0, 2, true
    while first < #KEYS do
      local count = tonumber(ARGV[place])
      local follows = count < 0
      if follows then count = -count end
      local left, times, wait = {}, {}, 0
      if follows and not allowed then wait = -1 end
      for index = 1, wait == 0 and count or 0 do
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
      if not follows then allowed = wait == 0 end
      answers[#answers + 1] = wait
      first, place = first + count, place + 1 + count * 4
    end
    return answers
    """)

  /// - Parameters:
  ///   - takes: in the order of the keys.
  ///   - now: nil for the server's time.
  static func arguments(_ takes: some Sequence<GatheredTakes.Take>, now: Timestamp?) -> [String] {
    var arguments = [now.map(\.description) ?? ""]
    func add(_ count: Int, _ charges: ArraySlice<(amount: Double, bucket: Bucket)>) {
      arguments.append(String(count))
      for (amount, bucket) in charges {
        let life = min(max(1, bucket.refillMillis), lifeMillisMax)
        arguments += [String(bucket.size), String(bucket.perMillisecond), String(amount), String(life)]
      }
    }
    for take in takes {
      let together = take.charges.dropLast(take.following)
      add(together.count, together)
      for place in take.charges.indices.suffix(take.following) { add(-1, take.charges[place...place]) }
    }
    return arguments
  }

  /// - Returns: of each take its decisions (`GatheredTakes.Take.decisionCount`), one after the other; nil for an answer
  ///   that the script does not give.
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
