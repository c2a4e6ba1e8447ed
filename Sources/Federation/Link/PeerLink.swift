import Metrics
import RelayCore
import RelayMetrics
import Synchronization
import X509

/// The state that this process keeps for one peer: a client, its breaker, and the peer's known capabilities.
final class PeerLink: Sendable {
  /// A client and what it was made of.
  struct Connection: Sendable {
    let client: PeerClient
    let peer: KnownPeer
    let leaf: Certificate
    let way: PeerWay

    /// - Parameter way: nil for whatever way it takes.
    func isMade(for peer: KnownPeer, as leaf: Certificate, by way: PeerWay?) -> Bool {
      self.peer.isReached(as: peer) && self.leaf == leaf && (way == nil || self.way == way)
    }
  }

  struct State {
    var breaker = PeerBreaker()
    var connection: Connection?
    var capabilities = PeerCapabilities()
    /// Under way: the question what the peer can do, one at a time for all who want to know.
    var asking: Task<Void, Never>?
    /// As the table of peers had it last.
    var peer: KnownPeer?
    /// Requests under way.
    var requests = 0
    /// Whether a task probes it.
    var isProbed = false
    /// Whether its next probe does not wait.
    var isProbedAtOnce = false
    /// When a refusal was last followed by a probe at once; nil before.
    var hastened: ContinuousClock.Instant?
    /// Whether other processes have yet to be told of the breaker's state.
    var isUntold = false
    /// Whether the peer is none any more: nothing may be made of this link.
    var isGone = false
  }

  let name: RelayName
  let state = Mutex(State())
  private let available: Gauge
  private let answered: Counter

  init(_ name: RelayName) {
    self.name = name
    available = RelayMetric.peers.available.gauge(.peer(name.text))
    answered = RelayMetric.peers.requests.counter(.peer(name.text), .outcome("answered"))
    available.record(1)
  }

  /// Counts a request in.
  /// - Throws: `.halted`, `.busy`.
  func admit(max: Int) throws(PeerFailure) {
    let failure: PeerFailure? = state.withLock { state in
      if let fault = state.breaker.fault { return .halted(fault) }
      if state.requests >= max { return .busy }
      state.requests += 1
      return nil
    }
    guard let failure else { return }
    count(failure)
    throw failure
  }

  /// Counts it out again.
  func leave() { state.withLock { $0.requests -= 1 } }

  func count(_ failure: PeerFailure?) {
    guard let failure else { return answered.increment() }
    RelayMetric.peers.requests.counter(.peer(name.text), .outcome(failure.word)).increment()
  }

  func show(isAvailable: Bool) { available.record(isAvailable ? 1 : 0) }

  /// Nothing is shown of it any more.
  func end() { available.destroy() }

  /// Takes the client away, unless it is not `client` any more.
  func disconnect(_ client: PeerClient? = nil) -> PeerClient? {
    state.withLock { state in
      guard let connection = state.connection, client == nil || connection.client === client else { return nil }
      state.connection = nil
      state.capabilities = PeerCapabilities()
      return connection.client
    }
  }
}
