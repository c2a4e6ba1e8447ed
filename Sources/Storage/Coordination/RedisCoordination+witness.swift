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
