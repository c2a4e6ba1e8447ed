package import RelayCore
import RelayWork
import Synchronization

/// Walks the way to a peer step by step, for `relay peer test`, for `relay doctor`, and for a peer that asks for it:
/// each step says what it found, and the remedy; what needs a step that failed is not tried (docs/federation.md,
/// "Testing a peering").
package struct PeerProbe: Sendable {
  /// In the order in which they are taken.
  package enum Step: String, Sendable, CaseIterable {
    /// In a walk on a peer's behalf: whether the walk led to that peer. The peer is told nothing else unless TLS has
    /// proven it.
    case reach
    case dns, tcp
    /// Both certificates are accepted.
    case tls
    /// How long both certificates, and both CAs, last.
    case certificate
    case clock, version
    /// We are an active peer there; what each scope answers.
    case authorisation
    /// How requests of our clients that name no relay reach the peer.
    case implicit
    /// The budgets that we have left there.
    case budget
    /// A key of the peer's probe account.
    case prekeys
    /// A message from our probe account to the peer's.
    case message
    /// The peer has stored it.
    case arrival
    /// The peer walked the way to us.
    case back

    /// The steps that must not have failed.
    var needs: [Step] {
      switch self {
      case .reach, .dns: []
      case .tcp: [.dns]
      case .tls: [.tcp]
      // If a certificate is refused, the operator wants to know when it ended.
      case .certificate: [.tcp]
      case .clock, .version, .authorisation: [.tls]
      case .implicit, .budget, .prekeys, .message, .back: [.authorisation]
      case .arrival: [.message]
      }
    }
  }

  /// How far to go.
  package struct Plan: Sendable {
    /// Our probe account; nil: no key is drawn and no message sent.
    let source: AccountNumber?
    let asksBack: Bool
    /// nil: nothing is said of clients that name no relay.
    let routing: Routing?

    package init(source: AccountNumber?, asksBack: Bool = false, routing: Routing? = nil) {
      self.source = source
      self.asksBack = asksBack
      self.routing = routing
    }

    /// This relay's settings for clients that name no relay.
    package struct Routing: Sendable {
      let isOn: Bool
      let takenMarks: Set<AttachmentMark>
      /// - Parameters:
      ///   - isOn: `federation.implicit`.
      ///   - takenMarks: of this relay's attachments, and of other peers'.
      package init(isOn: Bool, takenMarks: Set<AttachmentMark>) {
        self.isOn = isOn
        self.takenMarks = takenMarks
      }
    }

    /// Steps that are not planned are no part of the results.
    var steps: [Step] {
      Step.allCases.filter { step in
        switch step {
        case .reach: false
        case .prekeys, .message, .arrival: source != nil
        case .back: asksBack
        case .implicit: routing != nil
        default: true
        }
      }
    }
  }

  private let credentials: FederationCredentials
  private let addresses: PeerAddresses
  private let clock: WallClock
  private let limits: PeerLimits

  package init(
    credentials: FederationCredentials, addresses: PeerAddresses, clock: WallClock, limits: PeerLimits = PeerLimits()
  ) {
    self.credentials = credentials
    self.addresses = addresses
    self.clock = clock
    self.limits = limits
  }

  /// Begins at once, and stops when nobody listens any more.
  ///
  /// - Parameter limit: when the walk ends at the latest; the step that is under way then has failed.
  /// - Returns: a result of each planned step, in order; those of the way back stand before `back`.
  package func walk(
    _ peer: KnownPeer, _ plan: Plan, within limit: Duration = .seconds(60)
  ) -> AsyncStream<ProbeResult> {
    let (results, continuation) = AsyncStream.makeStream(of: ProbeResult.self)
    let walking = Walking()
    let walk = ProbeWalk(
      peer: peer, plan: plan, credentials: credentials, addresses: addresses, clock: clock, limits: limits)
    let task = Task {
      await walk.run(began: { walking.began($0, isProven: $1) }) { continuation.yield($0) }
      continuation.finish()
    }
    let timer = Countdown(of: limit) {
      continuation.yield(
        ProbeResult(
          step: walking.current,
          .failed("no answer within \(limit.components.seconds) s", remedy: "Try again when both sides are less busy."),
          duration: limit, isProven: walking.isProven))
      continuation.finish()
    }
    continuation.onTermination = { _ in
      task.cancel()
      timer.cancel()
    }
    return results
  }
}

/// Which step is under way, and whether TLS had proven the peer when it began, for the timer.
private final class Walking: Sendable {
  private let state = Mutex((step: PeerProbe.Step.dns, isProven: false))
  var current: PeerProbe.Step { state.withLock { $0.step } }
  var isProven: Bool { state.withLock { $0.isProven } }
  func began(_ next: PeerProbe.Step, isProven: Bool) { state.withLock { $0 = (next, isProven) } }
}
