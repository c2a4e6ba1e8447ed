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
