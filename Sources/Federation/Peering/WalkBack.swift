import Logging
import RelayCore
import RelayWork

/// A walk on a peer's behalf, to the URL that the peer gave, and the part of its result that the peer is told.
///
/// The URL may lead anywhere: to a host of ours, or of somebody else. So the peer learns nothing until TLS has proven
/// that it is there itself. However such a walk ended, the answer is "not reached", always the same and always after
/// the same time. The answer about a walk that did reach the peer tells only of the peer's own listener. Our operator
/// finds every step in the log.
struct WalkBack: Sendable {
  let probe: PeerProbe
  /// How long a walk may take, and what is told of one that did not reach the peer takes.
  let limit: Duration
  let logger: Logger

  /// - Returns: `reach`, and behind it every step where that has passed.
  func run(to peer: KnownPeer, from account: AccountNumber?) async -> [ProbeResult] {
    let end = ContinuousClock.now + limit
    var results: [ProbeResult] = []
    // Never asks the peer to walk in its turn, so that two relays do not go on forever.
    for await result in probe.walk(peer, .init(source: account), within: limit) {
      log(result, of: peer)
      results.append(result)
    }
    let reach = Self.reach(results)
    if reach.outcome == .passed { return [reach] + results }
    // Cut short where nobody waits for the answer any more.
    await Pause.until(end)
    return [reach]
  }

  private static func reach(_ results: [ProbeResult]) -> ProbeResult {
    let finding: ProbeFinding =
      results.contains(where: \.isProven)
      ? .passed("TLS proves that the asking relay is there")
      : ProbeFinding(outcome: .failed, text: "the asking relay was not reached", remedy: nil)
    return ProbeResult(step: .reach, finding, duration: .zero)
  }

  private func log(_ result: ProbeResult, of peer: KnownPeer) {
    var details: Logger.Metadata = [
      "peer": "\(peer.name)", "step": "\(result.step.rawValue)", "outcome": "\(result.outcome.rawValue)",
      "text": "\(result.text)", "milliseconds": "\(Int64(result.duration / .milliseconds(1)))",
    ]
    if let remedy = result.remedy { details["remedy"] = "\(remedy)" }
    let level: Logger.Level = result.outcome == .failed || result.outcome == .warned ? .warning : .info
    logger.log(level: level, "federation: a step of the way to a peer that asked for the walk", metadata: details)
  }
}
