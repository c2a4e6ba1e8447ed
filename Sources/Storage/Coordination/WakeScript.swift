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
