// Keeps one connection to Redis alive: hand-shake, deadlines, probes, and reconnecting with growing pauses.

import DequeModule
import Glibc
import RelayCore
import Synchronization

/// A connection that mends itself, for commands or for one subscription.
///
/// States: waiting (for the next attempt) -> connecting -> ready -> waiting ...; closed at the end. Any failure, a
/// missing answer included, drops the link and everything that waits on it.
final class RedisConnection: @unchecked Sendable {  // Mutable state but `readiness` is the reactor thread's alone.
  enum Role: Sendable {
    case commands
    /// To `channels`, one or more.
    case subscription(channels: [String])
  }
  enum Event {
    case ready
    /// Repeated at every failed attempt. The reason holds nothing that a peer or a client sent.
    case away(reason: String)
    case message(channel: String, [UInt8])
  }

  struct Limits: Sendable {
    /// Connect and hand-shake together.
    var connect: Duration = .seconds(2)
    var command: Duration = .seconds(1)
    /// How often an idle connection is asked whether it lives.
    var probeEvery: Duration = .seconds(5)
    /// The first pause; each further one is twice as long, up to the longest.
    var pauseFirst: Duration = .milliseconds(50)
    var pauseLongest: Duration = .seconds(2)
    /// Commands that may wait for an answer; the next one fails at once.
    var waitingMax = 10_000
  }

  private struct Waiting {
    let deadline: ContinuousClock.Instant
    let completion: (RedisReply?) -> Void
  }
  private enum State {
    case waiting
    case connecting(deadline: ContinuousClock.Instant)
    case ready
    case closed
  }

  private let endpoint: RedisEndpoint
  private let role: Role
  private let limits: Limits
  private let reactor: Reactor
  private let readiness = Atomic<Bool>(false)

  private var handler: (Event) -> Void = { _ in }
  private var state = State.waiting
  private var link: RedisLink?
  private var waiting: Deque<Waiting> = []
  private var probed = ContinuousClock.Instant.now
  private var pause: Duration

  /// Does nothing before `start`.
  init(_ endpoint: RedisEndpoint, role: Role, limits: Limits, on reactor: Reactor) {
    self.endpoint = endpoint
    self.role = role
    self.limits = limits
    self.reactor = reactor
    pause = limits.pauseFirst
  }

  /// Begins to connect. `handler` is called on the reactor's thread.
  func start(_ handler: @escaping @Sendable (Event) -> Void) {
    _ = reactor.submit { [self] in
      self.handler = handler
      Self.blockBrokenPipeSignal()
      connect()
      tick()
    }
  }

  /// - Returns: what Redis answered, an error included; nil, at once or within the time limits, when it did not.
  func call(_ command: RedisCommand) async -> RedisReply? {
    guard readiness.load(ordering: .acquiring) else { return nil }
    return await withCheckedContinuation { (caller: CheckedContinuation<RedisReply?, Never>) in
      let isAccepted = reactor.submit { [self] in
        guard case .ready = state, waiting.count < limits.waitingMax else { return caller.resume(returning: nil) }
        send(command) { caller.resume(returning: $0) }
      }
      if !isAccepted { caller.resume(returning: nil) }
    }
  }

  /// Ends the connection for good; those who wait get nil.
  func close() {
    _ = reactor.submit { [self] in
      drop()
      state = .closed
      handler = { _ in }
    }
  }
}

// MARK: - On the reactor's thread

extension RedisConnection {
  private func connect() {
    guard case .waiting = state else { return }
    state = .connecting(deadline: .now + limits.connect)
    link = RedisLink(endpoint.address, on: reactor) { [self] event in
      switch event {
      case .connected: shakeHands()
      case .reply(let reply): received(reply)
      case .closed: failed(reason: readiness.load(ordering: .relaxed) ? "the connection ended" : "cannot connect")
      }
    }
    if link == nil { failed(reason: "cannot connect") }
  }

  /// All in one flight: authenticate, choose the database, prove that commands work, and subscribe where that is asked.
  private func shakeHands() {
    if let password = endpoint.password?.value {
      expectSuccess(endpoint.user.map { RedisCommand("AUTH", $0, password) } ?? RedisCommand("AUTH", password))
    }
    if endpoint.database != 0 { expectSuccess(RedisCommand("SELECT", String(endpoint.database))) }
    expectSuccess(RedisCommand("PING")) { [self] in if case .commands = role { becomeReady() } }
    if case .subscription = role { probe { [self] in becomeReady() } }
  }

  private func becomeReady() {
    guard case .connecting = state else { return }
    state = .ready
    pause = limits.pauseFirst
    probed = .now
    readiness.store(true, ordering: .releasing)
    handler(.ready)
  }

  /// A subscribed connection is asked by subscribing again: unlike PING, hiredis 0.14 hands that answer to its caller.
  private func probe(_ succeeded: @escaping () -> Void = {}) {
    probed = .now
    switch role {
    case .commands: expectSuccess(RedisCommand("PING"), then: succeeded)
    case .subscription(let channels):
      // A command for each: Redis answers once a channel, and whoever waits here takes one answer.
      for channel in channels.dropLast() { expectSuccess(RedisCommand("SUBSCRIBE", channel)) }
      if let last = channels.last { expectSuccess(RedisCommand("SUBSCRIBE", last), then: succeeded) }
    }
  }

  private func expectSuccess(_ command: RedisCommand, then succeeded: @escaping () -> Void = {}) {
    send(command) { [self] reply in
      switch reply {
      case nil: break
      case .error(let code): failed(reason: "Redis answered \(code)")
      default: succeeded()
      }
    }
  }

  private func send(_ command: RedisCommand, completion: @escaping (RedisReply?) -> Void) {
    waiting.append(Waiting(deadline: .now + limits.command, completion: completion))
    link?.send(command)
  }

  private func received(_ reply: RedisReply) {
    if case .array(let parts) = reply, parts.count == 3, parts[0] == .bytes(Array("message".utf8)) {
      if case .bytes(let channel) = parts[1], case .bytes(let payload) = parts[2] {
        handler(.message(channel: String(decoding: channel, as: UTF8.self), payload))
      }
      return
    }
    waiting.popFirst()?.completion(reply)
  }

  private func failed(reason: String) {
    switch state {
    case .closed, .waiting: return
    case .connecting, .ready: state = .waiting
    }
    readiness.store(false, ordering: .releasing)
    // First the word, then the calls that fail with it: who sees a call fail can see why.
    handler(.away(reason: reason))
    drop()
    // Spread, so that processes that lost one Redis together do not return to it together.
    let spread = pause * Double.random(in: 0.8...1.2)
    pause = min(pause * 2, limits.pauseLongest)
    reactor.schedule(after: spread) { [self] in connect() }
  }

  private func drop() {
    readiness.store(false, ordering: .releasing)
    link?.close()
    link = nil
    let dropped = waiting
    waiting = []
    for entry in dropped { entry.completion(nil) }
  }

  /// Deadlines need no timer each: answers come in order, so the first that waits is the first that is late.
  private func tick() {
    let now = ContinuousClock.Instant.now
    switch state {
    case .closed: return
    case .waiting: break
    case .connecting(let deadline):
      if now >= deadline { failed(reason: "no connection within \(limits.connect)") }
    case .ready:
      if let first = waiting.first, now >= first.deadline {
        failed(reason: "no answer within \(limits.command)")
      } else if now - probed >= limits.probeEvery {
        probe()
      }
    }
    reactor.schedule(after: .milliseconds(100)) { [self] in tick() }
  }

  /// hiredis writes with write(2): a connection that the other end closed must give an error, not end the process.
  private static func blockBrokenPipeSignal() {
    var signals = sigset_t()
    sigemptyset(&signals)
    sigaddset(&signals, SIGPIPE)
    pthread_sigmask(SIG_BLOCK, &signals, nil)
  }
}
