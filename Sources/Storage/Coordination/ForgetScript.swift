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
