package import Logging
package import RelayCore
import RelayWork
import ServiceLifecycle
import Synchronization

/// Names a lane in metrics and logs.
package struct PushLaneName: Sendable, Hashable {
  package enum Provider: String, Sendable, CaseIterable {
    case apns
    case fcm
    case fcmLegacy = "fcm-legacy"
    case webPush = "webpush"
  }

  package let provider: Provider
  /// As the configuration calls it.
  package let app: String

  package init(_ provider: Provider, app: String) {
    self.provider = provider
    self.app = app
  }
}

package struct PushLaneLimits: Sendable {
  /// Requests to the provider at a time.
  package var workersMax = 20
  /// Requests to one destination, if the provider has several (WebPush).
  package var destinationWorkersMax = 20
  /// Messages in the lane: waiting for a worker, for another try, or under way.
  package var heldMax = 10_000
  /// Messages to one destination: one that does not answer leaves room to the others. nil is all.
  package var destinationHeldMax: Int?
  /// Requests to all destinations together that have not answered of late (`PushDestination.isProven`). nil is all.
  package var unprovenWorkersMax: Int?
  /// Messages to them. nil is all.
  package var unprovenHeldMax: Int?
  package var heldBytesMax = 64 << 20
  /// A provider that has not answered by then does not.
  package var attemptTimeout = Duration.seconds(10)
  package init() {}
}

/// The clock of a lane, and its way to sleep; tests hand in their own.
package struct PushTime: Sendable {
  package let now: @Sendable () -> ContinuousClock.Instant
  package let sleep: @Sendable (Duration) async throws -> Void

  package init(
    now: @escaping @Sendable () -> ContinuousClock.Instant,
    sleep: @escaping @Sendable (Duration) async throws -> Void
  ) {
    self.now = now
    self.sleep = sleep
  }

  package static let system = PushTime(
    now: { .now },
    sleep: { duration in
      guard await Pause.for(duration) else { throw CancellationError() }
    })
}

/// An event of a lane's message, for metrics.
package enum PushLaneEvent: Sendable {
  /// Before each attempt; `started` or `left` follows.
  case queued
  case started(waited: Duration)
  case left
  /// An attempt is over.
  case answered(PushOutcome, took: Duration)
}

/// The way to one app's provider: its workers, its queue, its retries, and the knowledge whether it answers. Lanes
/// share nothing, so that a provider in trouble slows no other.
package final class PushLane: Service, Sendable {
  private struct State {
    var turns: PushTurns
    var waiting: [PushTurns.Ticket: Waiter<Void>] = [:]
    var lastTicket: PushTurns.Ticket = 0
    var breakers = PushBreakers(max: PushLane.destinationsMax)
    var proven = ProvenDestinations(max: PushLane.destinationsMax)
  }

  /// Counted for a message beside its payload.
  private static let messageBytes = 1024
  /// Destinations of which something is remembered: push services that strangers may name.
  private static let destinationsMax = 1024

  package let name: PushLaneName
  private let provider: any PushProvider
  private let limits: PushLaneLimits
  private let retries: PushRetries
  private let clock: WallClock
  private let time: PushTime
  private let logger: Logger
  private let metrics: PushMetrics
  private let observe: (@Sendable (PushLaneEvent) -> Void)?
  private let state: Mutex<State>

  package init(
    _ name: PushLaneName, provider: any PushProvider, limits: PushLaneLimits = PushLaneLimits(), retries: PushRetries,
    clock: WallClock, logger: Logger, time: PushTime = .system,
    observe: (@Sendable (PushLaneEvent) -> Void)? = nil
  ) {
    self.name = name
    self.provider = provider
    self.limits = limits
    self.retries = retries
    self.clock = clock
    self.logger = logger
    self.time = time
    self.observe = observe
    metrics = PushMetrics(name)
    state = Mutex(
      State(
        turns: PushTurns(.init(limits))))
  }

  /// Whether messages are let through to all of its destinations.
  package var isAvailable: Bool { state.withLock { $0.breakers.openCount == 0 } }
  /// When the credentials end; nil when they do not.
  package var credentialsExpire: Timestamp? { provider.credentialsExpire }
  /// Messages in the lane.
  package var heldCount: Int { state.withLock { $0.turns.held } }

  /// Sends `message`, again where its schedule says so. Returns by `deadline`: then, or when there is no room, or the
  /// task is cancelled, with the last outcome, or why there was none. An attempt under way is let finish: its outcome
  /// is worth knowing.
  package func send(_ message: PushMessage, deadline: ContinuousClock.Instant) async -> PushOutcome {
    let bytes = message.payload.bytes.count + Self.messageBytes
    let outcome: PushOutcome
    if let destination = admit(bytes, for: provider.destination(of: message.target)) {
      outcome = await carry(message, to: destination, deadline: deadline)
      dismiss(bytes, for: destination)
    } else {
      outcome = .temporary(.queueFull)
    }
    metrics.ended(outcome)
    return outcome
  }

  /// Watches the provider's credentials until shutdown.
  package func run() async throws {
    try await cancelWhenGracefulShutdown { [self] in
      try await withThrowingDiscardingTaskGroup { group in
        group.addTask { try await self.provider.run() }
        for await _ in Periodic(every: .seconds(30)) {
          if let expires = provider.credentialsExpire { metrics.show(expires: expires) }
          forgetIdleBreakers()
        }
      }
    }
  }

  // MARK: One message

  private func carry(
    _ message: PushMessage, to destination: PushDestination, deadline: ContinuousClock.Instant
  ) async -> PushOutcome {
    let expiry = message.expires.map { time.now() + .milliseconds($0.millis - clock.now().millis) }
    let end = min(deadline, expiry ?? deadline)
    var last: PushOutcome?
    var tries = 0
    while true {
      if let expires = message.expires, clock.now() >= expires { return last ?? .refused(.expired) }
      if Task.isCancelled { return last ?? .temporary(.cancelled) }
      guard time.now() < end else { return last ?? .temporary(.deadline) }
      if let halted = halted(destination.name) { return last ?? halted }
      let entered = time.now()
      observe?(.queued)
      guard await turn(for: destination, until: end) else {
        observe?(.left)
        return last ?? .temporary(Task.isCancelled ? .cancelled : .deadline)
      }
      // The breaker may have opened meanwhile.
      if let halted = admission(destination.name) {
        observe?(.left)
        leave(destination)
        return last ?? halted
      }
      observe?(.started(waited: time.now() - entered))
      let outcome = await attempt(message, at: destination.name, until: end)
      leave(destination)
      tries += 1
      last = outcome
      guard let wait = retries.wait(after: outcome, tries: tries), time.now() + wait < end else { return outcome }
      do {
        if wait > .zero { try await time.sleep(wait) }
      } catch {
        return outcome
      }
    }
  }

  /// One attempt that was admitted, and what it tells of the provider.
  private func attempt(
    _ message: PushMessage, at destination: String, until end: ContinuousClock.Instant
  ) async -> PushOutcome {
    let began = time.now()
    let patience = min(end - began, limits.attemptTimeout)
    let isRushed = patience < limits.attemptTimeout / 2
    // In a task of its own, which begins on this thread at once: the caller's cancellation does not reach it.
    let outcome = await Task.immediate { [provider] in await provider.send(message, deadline: .now + patience) }.value
    let took = time.now() - began
    metrics.tried(outcome, took: took)
    observe?(.answered(outcome, took: took))
    settle(PushBreaker.Verdict(outcome, isRushed: isRushed), destination, outcome)
    return outcome
  }

  // MARK: The breaker

  /// - Returns: nil when a push may be tried.
  private func halted(_ destination: String) -> PushOutcome? {
    let now = time.now()
    guard case .halted(let left) = state.withLock({ $0.breakers.admission(destination, now: now) }) else { return nil }
    return .temporary(.halted, retryAfter: left)
  }

  /// As `halted`; the push is tried now.
  private func admission(_ destination: String) -> PushOutcome? {
    let now = time.now()
    guard case .halted(let left) = state.withLock({ $0.breakers.admit(destination, now: now) }) else { return nil }
    return .temporary(.halted, retryAfter: left)
  }

  private func settle(_ verdict: PushBreaker.Verdict, _ destination: String, _ outcome: PushOutcome) {
    let now = time.now()
    let (change, open) = state.withLock { state -> (PushBreaker.Change, Int) in
      state.proven.ended(verdict, destination, now: now)
      let change = state.breakers.ended(verdict, destination, now: now)
      return (change, change == .none ? 0 : state.breakers.openCount)
    }
    guard change != .none else { return }
    metrics.show(halted: open)
    let labels: Logger.Metadata = [
      "provider": "\(name.provider.rawValue)", "app": "\(name.app)", "reason": "\(outcome.reason?.word ?? "-")",
    ]
    if change == .opened {
      logger.warning("push provider does not take messages", metadata: labels)
    } else {
      logger.notice("push provider takes messages again", metadata: labels)
    }
  }

  private func forgetIdleBreakers() {
    let now = time.now()
    let open = state.withLock { state in
      state.breakers.sweep(now: now)
      return state.breakers.openCount
    }
    metrics.show(halted: open)
  }

  // MARK: Turns

  /// - Returns: nil where there is no room.
  private func admit(_ bytes: Int, for name: String) -> PushDestination? {
    let now = time.now()
    let (admitted, held) = state.withLock { state in
      let destination = state.proven.destination(name, now: now)
      let isIn = state.turns.admit(bytes: bytes, for: destination)
      return (isIn ? destination : nil, state.turns.held)
    }
    metrics.show(held: held)
    return admitted
  }

  private func dismiss(_ bytes: Int, for destination: PushDestination) {
    let held = state.withLock { state in
      state.turns.dismiss(bytes: bytes, for: destination)
      return state.turns.held
    }
    metrics.show(held: held)
  }

  /// Waits for a worker. - Returns: false when the deadline or the task's cancellation came first.
  private func turn(for destination: PushDestination, until deadline: ContinuousClock.Instant) async -> Bool {
    let ticket = state.withLock { state in
      state.lastTicket += 1
      return state.lastTicket
    }
    // As a rule there is a worker: then nothing else is set up.
    if state.withLock({ $0.turns.isFree(for: destination) && $0.turns.enter(ticket, for: destination) }) { return true }
    let waiter = Waiter<Void>()
    let isNow = state.withLock { state in
      if state.turns.enter(ticket, for: destination) { return true }
      state.waiting[ticket] = waiter
      return false
    }
    if isNow { return true }
    if await waiter.value(until: deadline) != nil { return true }
    let isTooLate = state.withLock { state in
      state.waiting[ticket] = nil
      return !state.turns.withdraw(ticket, for: destination)
    }
    // A turn that came as this gave up is the next one's.
    if isTooLate { leave(destination) }
    return false
  }

  private func leave(_ destination: PushDestination) {
    let next = state.withLock { state in
      state.turns.leave(destination).compactMap { state.waiting.removeValue(forKey: $0) }
    }
    for waiter in next { waiter.end(with: ()) }
  }
}
