/// `renew`: lengthens the life of entries, notes again those that were lost, and leaves others' alone.
enum RenewScript {
  static let script = RedisScript(
    """
    -- KEYS the entries of the devices, all different. ARGV: the life of an entry in milliseconds, and the channel of this
    -- process; then of each entry how it reads while it is the caller's, and what the caller is told when it is another's.
    -- An entry is "PROCESS CONNECTION". Returns the places of those that had been lost and stand again.
    local life, channel = ARGV[1], ARGV[2]
    local entries, lost = redis.call('MGET', unpack(KEYS)), {}
    for place = 1, #KEYS do
      local own, displaced = ARGV[place * 2 + 1], ARGV[place * 2 + 2]
      local entry = entries[place] or ''
      if entry == own then
        redis.call('PEXPIRE', KEYS[place], life)
      elseif string.match(entry, '^%w+ %d+$') then
        redis.call('PUBLISH', channel, displaced)
      else
        redis.call('SET', KEYS[place], own, 'PX', life)
        lost[#lost + 1] = place
      end
    end
    return lost
    """)
}
