import RelayCore

/// `hold`: notes connections, each in the place of an older one of its device, and lengthens the life of noted ones.
/// The younger of two connections stays, in whatever order their processes speak of them.
///
/// The order is the moment of opening by Redis's clock, in microseconds, as the process knows that clock
/// (`ServerClock`): wrong by half a round trip. Connections that were opened closer together than that may be taken
/// for each other; one of them stays all the same. A renewal displaces nothing that is older by less than a tenth of
/// a second. A process's knowledge of that clock gets better, and else each would displace the other.
///
/// A connection of the caller takes the place of another of the caller without a look at it: the process saw both
/// open. When Redis's clock moves, or another Redis takes over, no process writes before it has asked for the time
/// again. A former entry is compared by the old clock until its process renews it, within 15 s. An entry that lies in
/// the future is taken for a former one: it is replaced, and its process not told. If its connection is the younger
/// one, the next renewal brings it back.
enum HoldScript {
  static let script = RedisScript(
    """
    -- KEYS the entries of the devices, all different. ARGV: the life of an entry in milliseconds; this server's time in
    -- microseconds, as the caller knows it; how far it may be off; what the name of a process's channel begins with; the
    -- caller's process; 1 for connections that are new here, or 0; then of each entry the device, the connection's order
    -- and its id, 20 digits long.
    -- An entry is "PROCESS CONNECTION", the connection being order and id in one. Builds of before wrote the id alone:
    -- such an entry gives way to a new connection, and to no other.
    -- Returns the places of those that stand and did not before, of those that a younger one displaces, and processes with
    -- the words that the caller is to tell them, in turn: where there is no channel, none is told here. An integer, and
    -- changes nothing, when the caller's time is off.
    local time = redis.call('TIME')
    local now, slack = tonumber(time[1]) * 1000000 + tonumber(time[2]), tonumber(ARGV[3])
    if math.abs(now - tonumber(ARGV[2])) > slack then return 0 end
    local entries, standing, displaced, untold = redis.call('MGET', unpack(KEYS)), {}, {}, {}
    for place = 1, #KEYS do
      local device, order, id = ARGV[place * 3 + 4], ARGV[place * 3 + 5], ARGV[place * 3 + 6]
      local holder, former = string.match(entries[place] or '', '^(%w+) (%d+)$')
      local own = holder == ARGV[5] and string.sub(former, -20) == id
      local stays, isTold = false, holder and not own
      if isTold and holder ~= ARGV[5] then
        local before = tonumber(string.sub(former, 1, -21))
        if not before then
          stays = ARGV[6] == '0'
        elseif before > now + slack then
          isTold = false
        else
          local mine = tonumber(order)
          stays = before > mine or before == mine and string.sub(former, -20) > id
            or ARGV[6] == '0' and mine - before < 100000
        end
      end
      if stays then
        displaced[#displaced + 1] = place
      else
        redis.call('SET', KEYS[place], ARGV[5] .. ' ' .. order .. id, 'PX', ARGV[1])
        if isTold then
          local word = 'displaced ' .. device .. ' ' .. former
          if ARGV[4] ~= '' then
            redis.call('PUBLISH', ARGV[4] .. holder, word)
          else
            untold[#untold + 1] = holder
            untold[#untold + 1] = word
          end
        end
        if not own then standing[#standing + 1] = place end
      end
    end
    return {standing, displaced, untold}
    """)

  /// The arguments that each connection of a call adds to those of the call.
  static func arguments(_ connection: LiveConnection, by clock: ServerClock) -> [String] {
    [
      PresenceWord.text(of: connection.device), String(max(0, clock.micros(at: connection.opened))),
      id(of: connection),
    ]
  }

  static func id(of connection: LiveConnection) -> String {
    let digits = String(connection.id)
    return String(repeating: "0", count: idDigits - digits.count) + digits
  }

  enum Answer: Equatable {
    /// Places, counted from 0; and what the caller is to tell other processes.
    case held(standing: [Int], displaced: [Int], untold: [Word])
    /// The caller's idea of Redis's time is too far off.
    case timeIsOff
  }

  struct Word: Equatable {
    let process: String
    let text: String
  }

  /// - Returns: nil for an answer that the script does not give.
  static func answer(_ reply: RedisReply?, count: Int) -> Answer? {
    switch reply {
    case .integer: return .timeIsOff
    case .array(let parts) where parts.count == 3:
      guard let standing = parts[0].places(below: count), let displaced = parts[1].places(below: count),
        let untold = words(parts[2])
      else { return nil }
      return .held(standing: standing, displaced: displaced, untold: untold)
    default: return nil
    }
  }

  private static func words(_ reply: RedisReply) -> [Word]? {
    guard case .array(let parts) = reply, parts.count.isMultiple(of: 2) else { return nil }
    var words: [Word] = []
    for place in stride(from: 0, to: parts.count, by: 2) {
      guard let process = parts[place].name, case .bytes(let text) = parts[place + 1] else { return nil }
      words.append(Word(process: process, text: String(decoding: text, as: UTF8.self)))
    }
    return words
  }

  /// As many as the largest id has.
  static let idDigits = 20
  /// A command is answered or given up within a second; so is the question for the time. A command that a stopped
  /// process or Redis held up for longer changes nothing.
  static let slackMicros = "2000000"
}
