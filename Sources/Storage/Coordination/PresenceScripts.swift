/// `wake`: tells the processes that hold devices, each once.
enum WakeScript {
  static let script = RedisScript(
    """
    -- KEYS the entries of the devices. ARGV: what the name of a process's channel begins with; then the devices.
    -- An entry is "PROCESS CONNECTION". Returns the places of those that nobody was told of: they have no entry,
    -- or nobody listens where it says.
    local entries, absent, held = redis.call('MGET', unpack(KEYS)), {}, {}
    for place = 1, #KEYS do
      local process = string.match(entries[place] or '', '^(%w+) %d+$')
      if process then
        held[process] = held[process] or {}
        table.insert(held[process], place)
      else
        absent[#absent + 1] = place
      end
    end
    for process, places in pairs(held) do
      local devices = {}
      for index, place in ipairs(places) do devices[index] = ARGV[place + 1] end
      if redis.call('PUBLISH', ARGV[1] .. process, 'wake ' .. table.concat(devices, ' ')) == 0 then
        for _, place in ipairs(places) do absent[#absent + 1] = place end
      end
    end
    return absent
    """)
}

/// `leave`: forgets a connection while the entry is its own.
enum LeaveScript {
  static let script = RedisScript(
    """
    -- KEYS[1] the entry of the device. ARGV: what it begins with while it is the caller's, and what it ends with.
    -- Returns how many entries were forgotten.
    local entry = redis.call('GET', KEYS[1]) or ''
    if string.sub(entry, 1, #ARGV[1]) == ARGV[1] and string.sub(entry, -#ARGV[2]) == ARGV[2] then
      return redis.call('DEL', KEYS[1])
    end
    return 0
    """)
}

/// `forget`: removes the entries of devices while they name the caller.
enum ForgetScript {
  static let script = RedisScript(
    """
    -- KEYS the entries of the devices. ARGV: what an entry begins with while it is the caller's.
    -- Returns how many entries were forgotten.
    local entries, own = redis.call('MGET', unpack(KEYS)), {}
    for place = 1, #KEYS do
      if string.sub(entries[place] or '', 1, #ARGV[1]) == ARGV[1] then own[#own + 1] = KEYS[place] end
    end
    if #own == 0 then return 0 end
    return redis.call('DEL', unpack(own))
    """)
}

/// `rollCall`: notes that a process lives, and forgets those that do not any more.
enum RollCallScript {
  static let script = RedisScript(
    """
    -- KEYS[1] when each process last said that it lives. ARGV: the caller, and the milliseconds of silence after which a
    -- process is taken for dead. Returns how many of them there are.
    local time, silence = redis.call('TIME'), tonumber(ARGV[2])
    local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
    local function forget(first, last)
      return redis.call('ZREMRANGEBYSCORE', KEYS[1], first, last)
    end
    -- Times that lie ahead are of a clock that was set back since.
    local dead = forget('-inf', '(' .. now - silence) + forget('(' .. now + silence, '+inf')
    redis.call('ZADD', KEYS[1], now, ARGV[1])
    redis.call('PEXPIRE', KEYS[1], 10 * silence)
    return dead
    """)
}

/// `handOver`: tells the process that holds an address what came for it.
enum HandOverScript {
  static let script = RedisScript(
    """
    -- KEYS[1] the address's entry: the process that holds it. ARGV: what the name of a process's channel begins with, and
    -- what to tell.
    -- Returns how many listened.
    local process = redis.call('GET', KEYS[1])
    if process then return redis.call('PUBLISH', ARGV[1] .. process, ARGV[2]) end
    return 0
    """)
}

/// `leave`: forgets an address while it is one's own.
enum LeaveAddressScript {
  static let script = RedisScript(
    """
    -- KEYS[1] the entry. ARGV: how it reads while it is the caller's.
    -- Returns how many entries were forgotten.
    if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
    return 0
    """)
}
