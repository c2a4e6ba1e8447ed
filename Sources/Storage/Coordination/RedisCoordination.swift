package import Logging
package import RelayCore
import Synchronization

/// Limits, budgets, signals, presence and the epoch's witness of all processes of an operator, over one Redis.
///
/// While Redis is away every call falls back at once to a bucket of this process with a quarter of the size (at least
/// one charge) and of the rate: four processes together then allow what the shared bucket does. It recovers by itself.
/// Two connections: one for commands, one for the subscription to what all processes are told, and what this one is.
/// Where sentinels watch Redis, both lead to the primary that they name. In a cluster there is one for the commands to
/// each node, and one for each of the two channels, to the nodes that have their slots.
package final class RedisCoordination: Coordination {
  /// The shapes of every limiter.
  let shapes: Mutex<[LimiterName: Bucket]>
  let prefix: String
  private let channel: String
  let time: WallClock?
  let clock: WallClock
  let fallback: Mutex<BucketTable>
  /// The contacts that accounts asked this process for while Redis was away.
  let sketches = Mutex(ContactSketchTable())
  let health: RedisHealth
  private let listeners = Listeners<SignalEvent>(name: "relay.signals", initial: .disconnected)
  let presence = Listeners<PresenceEvent>(name: "relay.presence", initial: .disconnected)
  let addresses = Mutex(WaitingAddresses())
  /// Names this process to the others.
  let process = String(UInt64.random(in: .min ... .max), radix: 36)
  /// A signal could not be published, and the other processes do not know it yet.
  private let hasMissed = Atomic<Bool>(false)
  private let links = Mutex(Links())
  private let reactor: Reactor
  let commands: RedisCommands
  let gathered: GatheredTakes
  let leases: LeasedTakes
  private let subscriptions: [RedisConnection]
  /// nil where the endpoint names the server itself.
  let sentinels: SentinelWatch?

  /// Connects in the background; `degradation` tells when it has. To be ended by `close`.
  /// - Parameters:
  ///   - buckets: shapes that differ from `LimiterName.defaultBucket`.
  ///   - leased: limiters of whose buckets a process may allow a part before Redis has charged it.
  ///   - prefix: begins every key and the channel, so that several operators can share one Redis.
  ///   - clock: for the buckets of this process.
  ///   - time: what Redis takes for the time in place of its own clock; for tests.
  ///   - present: the endpoint as it is now, asked for before each attempt to connect: passwords change, and the
  ///     address of a single server may. nil leaves `endpoint`.
  /// - Throws: `.unavailable` when there is no thread or descriptor left, or a file of `endpoint.tls` cannot be used.
  package init(
    _ endpoint: RedisEndpoint, buckets: [LimiterName: Bucket] = [:], leased: Set<LimiterName> = [],
    prefix: String = "relay:", clock: WallClock,
    time: WallClock? = nil, patience: Duration = .milliseconds(500), logger: Logger,
    present: @escaping @Sendable () -> RedisEndpoint? = { nil }
  ) throws(StoreError) {
    if let files = endpoint.tls {
      do throws(RedisLinkFault) { _ = try RedisTLS(files) } catch { throw .unavailable(reason: error.reason) }
    }
    let shapes = Self.complete(buckets)
    self.shapes = Mutex(shapes)
    self.prefix = prefix
    channel = prefix + "signal"
    self.clock = clock
    self.time = time
    fallback = Mutex(
      BucketTable(buckets: shapes.mapValues(\.conservative), bucketsMax: LocalCoordination.bucketsMaxDefault))
    health = RedisHealth(logger: logger)
    reactor = try Reactor(name: "relay-redis")
    let probeKey = prefix + "probe"
    let current = { @Sendable in present() ?? endpoint }
    let sentinels: SentinelWatch? =
      if case .sentinels(let named) = endpoint.place { try SentinelWatch(named, of: current) } else { nil }
    self.sentinels = sentinels
    let channels = [channel, prefix + Self.processChannel + process]
    (commands, subscriptions) =
      if case .cluster = endpoint.place {
        Self.cluster(of: current, channels: channels, probeKey: probeKey, on: reactor)
      } else {
        Self.server(of: current, or: sentinels, channels: channels, probeKey: probeKey, on: reactor)
      }
    gathered = GatheredTakes(
      lanes: commands.lanes, by: { [commands] in commands.lane(of: $0.keys[0]) }, patience: patience,
      judge: Self.judging(by: commands, health: health, time: time))
    leases = LeasedTakes(of: leased, shapes: shapes, clock: clock)
    start()
  }

  private typealias Connections = (commands: RedisCommands, subscriptions: [RedisConnection])

  /// A channel's messages are heard at the node that has its slot.
  private static func cluster(
    of current: @escaping @Sendable () -> RedisEndpoint, channels: [String], probeKey: String, on reactor: Reactor
  ) -> Connections {
    let cluster = RedisCluster(of: current, probeKey: probeKey, on: reactor)
    let subscriptions = channels.map { channel in
      let slot = RedisSlot.of(channel)
      return subscription(to: [channel], probeKey: probeKey, on: reactor) { cluster.route(to: slot) }
    }
    return (.cluster(cluster), subscriptions)
  }

  /// The server that the endpoint names, or that `sentinels` do.
  private static func server(
    of current: @escaping @Sendable () -> RedisEndpoint, or sentinels: SentinelWatch?, channels: [String],
    probeKey: String, on reactor: Reactor
  ) -> Connections {
    let route = { @Sendable () -> RedisRoute in
      if let sentinels { return sentinels.route }
      let endpoint = current()
      guard case .server(let address) = endpoint.place else { return .nowhere(.cannotConnect) }
      return .to(endpoint.target(at: address))
    }
    let commands = RedisConnection(by: route, role: .commands, probeKey: probeKey, limits: .init(), on: reactor)
    return (.one(commands), [subscription(to: channels, probeKey: probeKey, on: reactor, by: route)])
  }

  private static func subscription(
    to channels: [String], probeKey: String, on reactor: Reactor, by route: @escaping @Sendable () -> RedisRoute
  ) -> RedisConnection {
    RedisConnection(
      by: route, role: .subscription(channels: channels), probeKey: probeKey, limits: .init(), on: reactor)
  }

  private func start() {
    for (place, subscription) in subscriptions.enumerated() {
      subscription.start { [weak self] in self?.subscriptionChanged($0, place) }
    }
    switch commands {
    case .one(let connection):
      connection.start { [weak self] in self?.commandsChanged($0) }
      sentinels?.start { [subscriptions] in
        connection.reconsider()
        for subscription in subscriptions { subscription.reconsider() }
      }
    case .cluster(let cluster):
      cluster.start { [weak self] in
        self?.commandsChanged($0)
      } changed: { [subscriptions] in
        for subscription in subscriptions { subscription.reconsider() }
      }
    }
  }

  package func degradation() async -> String? { health.fault }

  /// Whether what answers is a replica, which takes no writes.
  package var isAtReplica: Bool { links.withLock(\.isAtReplica) }

  package func close() async {
    await leases.payNow { await self.ask($0.map { [$0] }) }
    switch commands {
    case .one(let connection): connection.close()
    case .cluster(let cluster): cluster.close()
    }
    for subscription in subscriptions { subscription.close() }
    await sentinels?.close()
    await reactor.stop()
  }
}

// MARK: - Signals

extension RedisCoordination {
  /// On return the listeners of this process have been told, and Redis has taken the signal for the others. If it
  /// could not, they are told that they missed something as soon as it can.
  package func publish(_ signal: Signal) async {
    await listeners.tell(.signal(signal))
    await send(.signal(signal))
  }

  package func listen(_ handler: @escaping @Sendable (SignalEvent) -> Void) { listeners.add(handler) }

  private func send(_ content: RedisSignal.Content) async {
    let text = RedisSignal(sender: process, content: content).text
    guard case .integer = await commands.publish(text, on: channel) else {
      return hasMissed.store(true, ordering: .relaxed)
    }
    if content != .missed, hasMissed.exchange(false, ordering: .relaxed) { await send(.missed) }
  }

  private func commandsChanged(_ event: RedisConnection.Event) {
    switch event {
    case .ready:
      health.limitsServed()
      if hasMissed.exchange(false, ordering: .relaxed) { Task { await send(.missed) } }
      if links.withLock({ $0.commandsServed() }) { presence.post(.connected) }
    case .away(let fault):
      health.limitsAway(reason: fault.reason, isRefusal: fault.isRefusal)
      links.withLock { $0.commandsAway(isAtReplica: fault.isReplica) }
      // It would hear nothing that processes say at the primary.
      if fault.isReplica { for subscription in subscriptions { subscription.renew(because: fault) } }
    case .message, .answer, .slots: break
    }
  }

  /// - Parameter place: of the subscription.
  private func subscriptionChanged(_ event: RedisConnection.Event, _ place: Int) {
    switch event {
    case .ready:
      guard links.withLock({ $0.stands(place, of: subscriptions.count) }) else { return }
      health.signalsCarried()
      listeners.post(.connected)
      if links.withLock({ $0.signalsCarried() }) { presence.post(.connected) }
    case .away(let fault):
      health.signalsAway(reason: fault.reason)
      listeners.post(.disconnected)
      links.withLock { $0.signalsAway(place) }
      presence.post(.disconnected)
      if case .cluster(let cluster) = commands { cluster.lookAgain() }
    case .message(channel, let payload): received(payload)
    case .message(_, let payload):
      if let event = PresenceWord.event(payload) { presence.post(event) }
    case .answer, .slots: break
    }
  }

  private func received(_ payload: [UInt8]) {
    guard let signal = RedisSignal(payload), signal.sender != process else { return }
    switch signal.content {
    case .signal(let signal): listeners.post(.signal(signal))
    case .missed:
      listeners.post(.disconnected)
      listeners.post(.connected)
    }
  }
}

/// Which of the connections stand.
private struct Links {
  private var areCommandsServed = false
  private(set) var isAtReplica = false
  /// Whether presence is to hear of the subscription once commands are served: whoever hears of it notes connections.
  private var isOwed = false
  /// The subscriptions that stand.
  private var standing: Set<Int> = []

  /// - Returns: whether all subscriptions stand.
  mutating func stands(_ subscription: Int, of count: Int) -> Bool {
    standing.insert(subscription)
    return standing.count == count
  }

  /// - Returns: whether presence is to be told.
  mutating func commandsServed() -> Bool {
    (areCommandsServed, isAtReplica) = (true, false)
    defer { isOwed = false }
    return isOwed
  }

  mutating func commandsAway(isAtReplica: Bool) { (areCommandsServed, self.isAtReplica) = (false, isAtReplica) }

  /// - Returns: whether presence is to be told.
  mutating func signalsCarried() -> Bool {
    isOwed = !areCommandsServed
    return areCommandsServed
  }

  mutating func signalsAway(_ subscription: Int) {
    standing.remove(subscription)
    isOwed = false
  }
}
