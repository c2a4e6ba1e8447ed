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
