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
