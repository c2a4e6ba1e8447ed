package import RelayCore
import RelayWork

extension RedisCoordination: EpochWitness {
  package var epochWitness: (any EpochWitness)? { self }

  /// A Redis that this process has not reached yet is waited for, for as long as the first attempt takes: whoever asks
  /// at the start of a process has just opened the connection.
  package func witness(epoch: Int64) async -> [EpochTestimony] {
    await awaitFirstAttempt()
    let reply = await commands.run(WitnessScript.script, keys: [prefix + "epoch"], [String(epoch)])
    return [EpochTestimony(peer: nil, epoch: WitnessScript.former(reply))]
  }

  private func awaitFirstAttempt() async {
    await Pause.poll(every: .milliseconds(10), until: .now + Self.firstAttemptMax) { !health.isReachingForLimits }
  }

  /// The deadline of a connection, and a little.
  private static let firstAttemptMax = Duration.seconds(3)
}

/// `witness`: remembers an epoch if it is the highest so far, atomically.
enum WitnessScript {
  // Lua's numbers lose digits above 2^53: digits are compared as text.
  static let script = RedisScript(
    """
    -- KEYS[1] the highest epoch, which never expires. ARGV: the epoch in decimal digits.
    -- Returns the highest epoch before, 0 for none.
    local epoch, former = ARGV[1], redis.call('GET', KEYS[1]) or '0'
    if #epoch > #former or #epoch == #former and epoch > former then redis.call('SET', KEYS[1], epoch) end
    return former
    """)

  /// - Returns: nil for an answer that the script does not give.
  static func former(_ reply: RedisReply?) -> Int64? {
    guard case .bytes(let digits) = reply else { return nil }
    return Int64(String(decoding: digits, as: UTF8.self))
  }
}
