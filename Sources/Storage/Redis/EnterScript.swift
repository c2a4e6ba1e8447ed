/// `enter`: notes a connection in the place of whatever was noted for its device, and has the former one told.
enum EnterScript {
  // By order of arrival here and by no clock: processes' clocks differ, and the newest connection is where the device is.
  static let script = RedisScript(
    """
    -- KEYS[1] the device's entry. ARGV: how it reads from now on, its life in milliseconds, what the name of a process's
    -- channel begins with, and the device.
    -- An entry is "PROCESS CONNECTION". Returns 1.
    local former = redis.call('MGET', KEYS[1])[1] or ''
    redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
    local process, connection = string.match(former, '^(%w+) (%d+)$')
    if process and former ~= ARGV[1] then
      redis.call('PUBLISH', ARGV[3] .. process, 'displaced ' .. ARGV[4] .. ' ' .. connection)
    end
    return 1
    """)
}
