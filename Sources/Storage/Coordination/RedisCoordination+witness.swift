package import RelayCore

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
    let deadline = ContinuousClock.now + Self.firstAttemptMax
    while health.isReachingForLimits, ContinuousClock.now < deadline {
      do { try await Task.sleep(for: .milliseconds(10)) } catch { return }  // The caller gave up.
    }
  }

  /// The deadline of a connection, and a little.
  private static let firstAttemptMax = Duration.seconds(3)
}
