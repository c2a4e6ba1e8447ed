/// The capabilities that one peer is known to have, and since when.
struct PeerCapabilities: Sendable {
  /// How long an answer holds.
  static let lifetime = Duration.seconds(60)
  /// How long not to ask after a failure: whoever wants to know meanwhile goes on without.
  static let pause = Duration.seconds(1)

  private var known: Set<PeerCapability>?
  private var expires: ContinuousClock.Instant?
  private var withoutBatches: ContinuousClock.Instant?

  /// - Returns: what is known, nil when nothing is yet; and whether it is time to ask.
  mutating func look(at now: ContinuousClock.Instant) -> (known: Set<PeerCapability>?, isToAsk: Bool) {
    if let withoutBatches, withoutBatches <= now { self.withoutBatches = nil }
    return (expires == nil ? nil : current, expires.map { $0 <= now } ?? true)
  }

  /// - Parameter answer: nil when there was none: what was known stays for a while.
  mutating func told(_ answer: Set<PeerCapability>?, at now: ContinuousClock.Instant) {
    known = answer ?? known
    expires = now + (answer == nil ? Self.pause : Self.lifetime)
  }

  /// The peer does not take batches, whatever it told.
  mutating func batchRefused(at now: ContinuousClock.Instant) { withoutBatches = now + Self.lifetime }

  /// Whether it has told anything.
  var isTold: Bool { known != nil }

  var current: Set<PeerCapability> {
    var current = known ?? []
    if withoutBatches != nil { current.subtract([.batches, .orderedBatches]) }
    return current
  }
}
