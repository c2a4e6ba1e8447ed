/// The capabilities that one peer is known to have, and since when.
struct PeerCapabilities: Sendable {
  /// How long an answer holds.
  static let lifetime = Duration.seconds(60)
  /// How long not to ask after a failure: whoever wants to know meanwhile goes on without.
  static let pause = Duration.seconds(1)

  private var known: Set<PeerCapability>?
  private var expires: ContinuousClock.Instant?
  /// Capabilities that the peer has told and does not have, and until when they are not believed.
  private var refused: [PeerCapability: ContinuousClock.Instant] = [:]

  /// - Returns: what is known, nil when nothing is yet; and whether it is time to ask.
  mutating func look(at now: ContinuousClock.Instant) -> (known: Set<PeerCapability>?, isToAsk: Bool) {
    if !refused.isEmpty { refused = refused.filter { $0.value > now } }
    return (expires == nil ? nil : current, expires.map { $0 <= now } ?? true)
  }

  /// - Parameter answer: nil when there was none: what was known stays for a while.
  mutating func told(_ answer: Set<PeerCapability>?, at now: ContinuousClock.Instant) {
    known = answer ?? known
    expires = now + (answer == nil ? Self.pause : Self.lifetime)
  }

  /// The peer does not have `capabilities`, whatever it told.
  mutating func refused(_ capabilities: Set<PeerCapability>, at now: ContinuousClock.Instant) {
    for capability in capabilities { refused[capability] = now + Self.lifetime }
  }

  /// Whether it has told anything.
  var isTold: Bool { known != nil }

  var current: Set<PeerCapability> {
    let known = known ?? []
    return refused.isEmpty ? known : known.filter { refused[$0] == nil }
  }
}
