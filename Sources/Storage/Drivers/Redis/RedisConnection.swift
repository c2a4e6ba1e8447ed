// Keeps one connection to Redis, or to a sentinel, alive: states, deadlines, and reconnecting with growing pauses.

import DequeModule
import Glibc
import RelayCore
import RelayWork
import Synchronization

/// A connection that mends itself, for commands, for one subscription, or for asking a sentinel.
///
/// States: waiting (for the next attempt) -> connecting -> ready -> waiting ...; closed at the end. Any failure, a
/// missing answer included, drops the link and everything that waits on it. While the way to the server is being found
/// out, or the addresses of its name are, a connection is connecting and has no link.
final class RedisConnection: @unchecked Sendable {  // Mutable state but `readiness` is the reactor thread's alone.
  enum Role: Sendable {
    case commands
    /// To `channels`, one or more.
    case subscription(channels: [String])
    /// Its probes ask for the primary of `group`.
    case sentinel(group: String)
    /// Its probes ask a node of a cluster for the slots.
    case slots
  }
  enum Event {
    case ready
    /// Repeated at every failed attempt. The reason holds nothing that a peer or a client sent.
    case away(RedisLinkFault)
    case message(channel: String, [UInt8])
    /// A sentinel's, at each probe.
    case answer(SentinelAnswer)
    /// A node's, at each probe.
    case slots(SlotMap)
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

  /// The present way: primaries and passwords change.
  private let route: @Sendable () -> RedisRoute
  let role: Role
  let probeKey: String
  private let limits: Limits
  private let reactor: Reactor
  private let resolver: HostResolver
  private let readiness = Atomic<Bool>(false)
  private let agreed = Mutex<String?>(nil)
  let serverClock = Mutex<ServerClock?>(nil)

  private(set) var handler: (Event) -> Void = { _ in }
  private var state = State.waiting
  private var link: (any RedisLink)?
  /// The server that `link` leads to, or led to last.
  private(set) var target: RedisTarget?
  /// Look-ups of names so far: the last one counts.
  private var lookUps = 0
  /// The name that is being looked up.
  private var nameSought: String?
  /// Further addresses of the target's name, for as long as none has been connected to.
  private var candidates: ArraySlice<String> = []
  /// Attempts since the last connection that stood: each begins with another address of the name.
  private var attempts = 0
  private var waiting: Deque<Waiting> = []
  var probed = ContinuousClock.Instant.now
  private var pause: Duration
  /// The next one, in state `waiting`.
  private var attempt: Reactor.TimerID?

  /// Does nothing before `start`.
  /// - Parameters:
  ///   - route: the way, asked for before each attempt.
  ///   - probeKey: a key that nobody ever writes; a sentinel's connection needs none.
  init(
    by route: @escaping @Sendable () -> RedisRoute, role: Role, probeKey: String = "", limits: Limits,
    on reactor: Reactor, resolver: HostResolver = RedisConnection.system
  ) {
    self.resolver = resolver
    self.route = route
    self.role = role
    self.probeKey = probeKey
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

  /// Whether it is ready for commands.
  var isReady: Bool { readiness.load(ordering: .acquiring) }

  /// Has the next probe made now, unless one was just made.
  func probeSoon() {
    _ = reactor.submit { [self] in
      if case .ready = state, .now - probed >= Self.probesApart { probe() }
    }
  }

  /// - Parameter isAsking: whether the command is for a node to which the slot is on its way.
  /// - Returns: what Redis answered, an error included; nil, at once or within the time limits, when it did not.
  func call(_ command: RedisCommand, isAsking: Bool = false) async -> RedisReply? {
    guard readiness.load(ordering: .acquiring) else { return nil }
    return await withCheckedContinuation { (caller: CheckedContinuation<RedisReply?, Never>) in
      let isAccepted = reactor.submit { [self] in
        guard case .ready = state, waiting.count < limits.waitingMax else { return caller.resume(returning: nil) }
        if isAsking { send(RedisCommand("ASKING")) { _ in } }
        send(command) { caller.resume(returning: $0) }
      }
      if !isAccepted { caller.resume(returning: nil) }
    }
  }

  /// The protocol that encrypts the connection, or did when it last stood: `TLSv1.3`; nil in clear.
  var encryption: String? { agreed.withLock { $0 } }

  /// Redis's clock as it was told last, on this connection or one before; nil until then, and for a subscription.
  var clock: ServerClock? { serverClock.withLock { $0 } }

  /// Asks for Redis's clock anew. - Returns: whether it told it.
  func askTime() async -> Bool {
    guard readiness.load(ordering: .acquiring) else { return false }
    return await withCheckedContinuation { (caller: CheckedContinuation<Bool, Never>) in
      let isAccepted = reactor.submit { [self] in
        guard case .ready = state, waiting.count < limits.waitingMax else { return caller.resume(returning: false) }
        learnTime { caller.resume(returning: $0) }
      }
      if !isAccepted { caller.resume(returning: false) }
    }
  }

  /// Gives the link up for `fault`, and makes another one.
  func renew(because fault: RedisLinkFault) {
    _ = reactor.submit { [self] in if case .ready = state { failed(fault) } }
  }

  /// The route may be another one now: a link that leads elsewhere is given up, and who waits tries at once.
  func reconsider() {
    _ = reactor.submit { [self] in
      if case .connecting = state, link == nil {
        state = .waiting
        return connect()
      }
      guard case .to(let next) = route(), next.address != target?.address else { return }
      pause = limits.pauseFirst
      switch state {
      case .closed: break
      case .waiting: connect()
      case .connecting, .ready:
        target = nil
        failed(.primaryMoved)
      }
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
    if let attempt { reactor.cancel(attempt) }
    state = .connecting(deadline: .now + limits.connect)
    switch route() {
    case .to(let target): connect(to: target)
    case .soon: target = nil
    case .nowhere(let fault):
      target = nil
      failed(fault)
    }
  }

  private func connect(to target: RedisTarget) {
    self.target = target
    guard case .tcp(let host, _) = target.address, !RedisTLS.isAddress(host) else { return open(target, at: nil) }
    lookUps += 1
    nameSought = host
    // hiredis would ask the system on this thread, on which all connections to Redis wait.
    let number = lookUps
    Task.ofNobody { [self] in
      let found = await resolver.addresses(host, limits.connect) ?? []
      _ = reactor.submit { [self] in lookedUp(number, host, found, for: target) }
    }
  }

  private func lookedUp(_ number: Int, _ host: String, _ found: [String], for target: RedisTarget) {
    guard case .connecting = state, number == lookUps, nameSought != nil else { return }
    nameSought = nil
    guard !found.isEmpty else {
      return failed(RedisLinkFault("cannot connect: \(host) has no address, or none in time"))
    }
    let first = attempts % found.count
    attempts += 1
    candidates = (found[first...] + found[..<first])[...]
    open(target, at: candidates.popFirst())
  }

  /// - Parameter numeric: an address of the target's name; nil where it has none.
  private func open(_ target: RedisTarget, at numeric: String?) {
    do throws(RedisLinkFault) {
      link = try makeLink(to: target, at: numeric) { [self] event in
        switch event {
        case .connected:
          candidates = []
          shakeHands(with: target)
        case .reply(let reply): received(reply)
        case .closed(let fault):
          ended(target, fault ?? (readiness.load(ordering: .relaxed) ? .connectionEnded : .cannotConnect))
        }
      }
    } catch {
      ended(target, error)
    }
  }

  private func ended(_ target: RedisTarget, _ fault: RedisLinkFault) {
    guard let next = candidates.popFirst() else { return failed(fault) }
    link = nil
    open(target, at: next)
  }

  private func makeLink(
    to target: RedisTarget, at numeric: String?, _ handler: @escaping (RedisLinkEvent) -> Void
  ) throws(RedisLinkFault) -> any RedisLink {
    guard case .tcp(let host, let port) = target.address else {
      return try RedisPlainLink(target.address, on: reactor, handler: handler)
    }
    let address = numeric ?? host
    if let tls = target.tls {
      return try RedisSecureLink(host: host, at: address, port: port, tls, on: reactor, handler: handler)
    }
    return try RedisPlainLink(.tcp(host: address, port: port), on: reactor, handler: handler)
  }

  /// For all connections of the process.
  static let system = HostResolver.system()

  func becomeReady() {
    guard case .connecting = state else { return }
    state = .ready
    pause = limits.pauseFirst
    attempts = 0
    probed = .now
    agreed.withLock { $0 = link?.encryption }
    readiness.store(true, ordering: .releasing)
    handler(.ready)
  }

  func send(_ command: RedisCommand, completion: @escaping (RedisReply?) -> Void) {
    waiting.append(Waiting(deadline: .now + limits.command, completion: completion))
    link?.send(command)
  }

  private func received(_ reply: RedisReply) {
    if case .subscription = role, case .array(let parts) = reply, parts.count == 3, let kind = parts[0].name {
      if kind == "message" || kind == "smessage" {
        if case .bytes(let channel) = parts[1], case .bytes(let payload) = parts[2] {
          handler(.message(channel: String(decoding: channel, as: UTF8.self), payload))
        }
        return
      }
      // Said to those who listen when the slot leaves the node.
      if kind == "sunsubscribe" { return failed(.slotMoved) }
    }
    // The waiting caller is told that there was no answer: another server may give one. A node's word of the cluster is
    // an answer: the node itself is well.
    if case .error(let code) = reply, code != "CLUSTERDOWN" || target?.isNode != true,
      let fault = RedisLinkFault(refusingAll: code)
    {
      return failed(fault)
    }
    waiting.popFirst()?.completion(reply)
  }

  func failed(_ fault: RedisLinkFault) {
    switch state {
    case .closed, .waiting: return
    case .connecting, .ready: state = .waiting
    }
    readiness.store(false, ordering: .releasing)
    // First the word, then the calls that fail with it: who sees a call fail can see why.
    handler(.away(fault.of(target)))
    drop()
    // Spread, so that processes that lost one Redis together do not return to it together.
    let spread = pause * Double.random(in: 0.8...1.2)
    pause = min(pause * 2, limits.pauseLongest)
    attempt = reactor.schedule(after: spread) { [self] in connect() }
  }

  private func drop() {
    readiness.store(false, ordering: .releasing)
    link?.close()
    link = nil
    (nameSought, candidates) = (nil, [])
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
      if now >= deadline { failed(RedisLinkFault(hurdle ?? "no connection within \(limits.connect)")) }
    case .ready:
      if let first = waiting.first, now >= first.deadline {
        failed(RedisLinkFault("no answer within \(limits.command)"))
      } else if now - probed >= limits.probeEvery {
        probe()
      }
    }
    reactor.schedule(after: .milliseconds(100)) { [self] in tick() }
  }

  /// Why a connection that is connecting for long may wait.
  private var hurdle: String? {
    if let nameSought { return "no name server has told the address of \(nameSought)" }
    guard let link else { return "no sentinel or node of Redis has answered yet" }
    return link.hurdle
  }

  private static let probesApart = Duration.milliseconds(100)

  /// hiredis writes with write(2): a connection that the other end closed must give an error, not end the process.
  private static func blockBrokenPipeSignal() {
    var signals = sigset_t()
    sigemptyset(&signals)
    sigaddset(&signals, SIGPIPE)
    pthread_sigmask(SIG_BLOCK, &signals, nil)
  }
}
