import RelayCore

/// The work that this process leaves alone for a while.
struct OutboxPauses {
  private struct Pause {
    let end: ContinuousClock.Instant
    /// As read last when it began.
    let retried: Timestamp?
  }

  private var pauses: [RelayName: Pause] = [:]
  /// Peers with messages that are too old and whose senders had no room for the word of it.
  private var untold: [RelayName: ContinuousClock.Instant] = [:]
  /// When everything that waits for a peer was made due last, as read last.
  private var retried: [RelayName: Timestamp] = [:]

  func isPaused(_ relay: RelayName) -> Bool { pauses[relay] != nil }
  /// Whether telling senders that what waits has become too old is left for later.
  func isUntold(_ relay: RelayName) -> Bool { untold[relay] != nil }

  mutating func begin(of relay: RelayName, until end: ContinuousClock.Instant) {
    pauses[relay] = Pause(end: end, retried: retried[relay])
  }
  mutating func end(of relay: RelayName) { pauses[relay] = nil }
  mutating func beginUntold(_ relay: RelayName, at now: ContinuousClock.Instant) {
    untold[relay] = now + OutboxPolicy.untoldPause
  }

  /// Ends what has lasted for long enough, and what an operator's word that came since has ended.
  mutating func readingEnded(_ usage: [OutboxUsage], at now: ContinuousClock.Instant) {
    retried = Dictionary(usage.map { ($0.relay, $0.retried) }) { first, _ in first }
    pauses = pauses.filter { now < $0.value.end && retried[$0.key] == $0.value.retried }
    untold = untold.filter { now < $0.value }
  }
}
