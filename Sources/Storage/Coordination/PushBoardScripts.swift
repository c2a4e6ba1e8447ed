import RelayCore

// Known pushes lie in two hashes, by mark. The newer one takes new entries. When it is full, or has lasted its life,
// it becomes the older, and the former older one is forgotten. So everything is remembered for that life at least,
// unless there is too much of it. A value is `s`, `r`, or `w CLAIMANT END`, in milliseconds by Redis's clock.

/// `claim`: claims pushes that nobody has claimed or settled.
enum ClaimPushesScript {
  static let script = RedisScript(
    """
    -- KEYS[1] says which of KEYS[2] and KEYS[3], the hashes, is the newer one: 0 or 1. ARGV: the claimant; the life of a
    -- claim in milliseconds; then the marks.
    -- Returns for each mark `o` for the claimant's own, `w` for somebody else's, or what it was settled with.
    local time = redis.call('TIME')
    local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
    local number = tonumber(redis.call('GET', KEYS[1]) or '0') % 2
    local newer, older, claims = KEYS[2 + number], KEYS[3 - number], {}
    for place = 3, #ARGV do
      local word = redis.call('HGET', newer, ARGV[place]) or redis.call('HGET', older, ARGV[place])
      local claimant, ends = string.match(word or '', '^w (%w+) (%d+)$')
      if word and not claimant then
        claims[#claims + 1] = word
      elseif claimant and claimant ~= ARGV[1] and tonumber(ends) > now then
        claims[#claims + 1] = 'w'
      else
        redis.call('HSET', newer, ARGV[place], 'w ' .. ARGV[1] .. ' ' .. string.format('%d', now + ARGV[2]))
        claims[#claims + 1] = 'o'
      end
    end
    return claims
    """)

  /// - Returns: nil for an answer that the script does not give.
  static func claims(_ reply: RedisReply?, count: Int) -> [PushClaim]? {
    guard case .array(let words) = reply, words.count == count else { return nil }
    var claims: [PushClaim] = []
    for word in words {
      switch word {
      case .bytes([UInt8(ascii: "o")]): claims.append(.ours)
      case .bytes([UInt8(ascii: "w")]): claims.append(.underWay)
      case .bytes([UInt8(ascii: "s")]): claims.append(.settled(.served))
      case .bytes([UInt8(ascii: "r")]): claims.append(.settled(.rejected))
      default: return nil
      }
    }
    return claims
  }
}

/// `settle`: says what became of claimed pushes.
enum SettlePushesScript {
  static let script = RedisScript(
    """
    -- KEYS as `claim`. ARGV: the claimant; how many marks a hash takes; its life in milliseconds; then each mark with `s`,
    -- `r`, or nothing where the claim is given back.
    local time = redis.call('TIME')
    local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
    local number = tonumber(redis.call('GET', KEYS[1]) or '0') % 2
    local newer, older, life = KEYS[2 + number], KEYS[3 - number], tonumber(ARGV[3])
    for place = 4, #ARGV, 2 do
      local mark, word = ARGV[place], ARGV[place + 1]
      if word ~= '' then
        redis.call('HSET', newer, mark, word)
      else
        local own = 'w ' .. ARGV[1] .. ' '
        for _, hash in ipairs({newer, older}) do
          if string.sub(redis.call('HGET', hash, mark) or '', 1, #own) == own then redis.call('HDEL', hash, mark) end
        end
      end
    end
    -- The empty mark is no push's: when the hash began. Claims alone begin none, and are forgotten with the next one.
    if redis.call('HSETNX', newer, '', string.format('%d', now)) == 1 then
      redis.call('PEXPIRE', newer, string.format('%d', 2 * life))
    end
    if redis.call('HLEN', newer) > tonumber(ARGV[2]) or now - tonumber(redis.call('HGET', newer, '')) >= life then
      redis.call('UNLINK', older)
      redis.call('SET', KEYS[1], 1 - number)
    end
    return 1
    """)

  static func word(_ result: PushResult?) -> [UInt8] {
    switch result {
    case .served: [UInt8(ascii: "s")]
    case .rejected: [UInt8(ascii: "r")]
    case nil: []
    }
  }
}
