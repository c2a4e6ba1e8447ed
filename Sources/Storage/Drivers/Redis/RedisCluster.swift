// The nodes of a cluster of Redis: a connection to each that takes writes, the slots of each, and the way of a command
// to the node that has its slot.

package import RelayCore
import RelayWork
import Synchronization

/// Facts of a cluster of Redis as this process knows them, for `relay doctor`.
package struct ClusterDiagnosis: Sendable, Equatable {
  /// The nodes that take writes.
  package let nodes: [RedisEndpoint.Address]
  /// One line for each node that is away: its address, and why.
  package let faults: [String]
  /// Slots that no node has.
  package let missing: Int
}

/// Connections to the nodes of a cluster, which follow its slots.
///
/// One more connection asks a node for the slots once a second, and at once when a node says that a slot has moved. If
/// that node dies, or finds the cluster unusable, the next one is asked: of those that are known, or of those that the
/// endpoint names.
final class RedisCluster: Sendable {
  fileprivate struct Node {
    let connection: RedisConnection
    /// nil while it stands, and before the first attempt.
    var fault: RedisLinkFault?
    /// When it is forgotten, unless the map names it or a command is sent there again.
    var expires: ContinuousClock.Instant
  }
  fileprivate struct State {
    var map: SlotMap?
    /// Why there is no map, or no newer one.
    var fault: RedisLinkFault?
    var nodes: [RedisEndpoint.Address: Node] = [:]
    /// Counts the attempts to find a node that tells the slots.
    var turn = 0
    var isServed = false
    var isClosed = false
    var handler: @Sendable (RedisConnection.Event) -> Void = { _ in }
    var changed: @Sendable () -> Void = {}
  }

  /// The state, for closures that are made before the cluster.
  private final class Guarded: Sendable {
    private let state = Mutex(State())
    func withLock<Value: Sendable>(_ body: (inout State) -> Value) -> Value {
      state.withLock { state -> Value in body(&state) }
    }
  }

  private let current: @Sendable () -> RedisEndpoint
  private let probeKey: String
  private let reactor: Reactor
  private let state: Guarded
  private let slots: RedisConnection
  /// How often nodes said that a slot is elsewhere, and that it is on its way.
  let moves = Atomic<Int>(0)
  let asks = Atomic<Int>(0)

  /// Does nothing before `start`.
  /// - Parameters:
  ///   - current: the endpoint as it is now.
  ///   - probeKey: a key that nobody ever writes.
  init(of current: @escaping @Sendable () -> RedisEndpoint, probeKey: String, on reactor: Reactor) {
    self.current = current
    self.probeKey = probeKey
    self.reactor = reactor
    let state = Guarded()
    self.state = state
    let route = { @Sendable () -> RedisRoute in
      let endpoint = current()
      guard let address = state.withLock({ $0.nextCandidate(of: endpoint) }) else { return .nowhere(.cannotConnect) }
      return .to(endpoint.target(at: address, isNode: true))
    }
    slots = RedisConnection(by: route, role: .slots, limits: Self.slotLimits, on: reactor)
  }

  /// - Parameters:
  ///   - handler: told `ready` when all slots have a node and all nodes are connected, and `away` when that ends.
  ///   - changed: called when `route(to:)` may say another thing.
  func start(
    _ handler: @escaping @Sendable (RedisConnection.Event) -> Void, changed: @escaping @Sendable () -> Void
  ) {
    state.withLock { ($0.handler, $0.changed) = (handler, changed) }
    slots.start { [weak self] event in
      switch event {
      case .slots(let map): self?.learned(map)
      case .away(let fault): self?.slotsAway(fault)
      case .ready, .message, .answer: break
      }
    }
  }

  func close() {
    slots.close()
    let nodes = state.withLock { state in
      state.isClosed = true
      defer { state.nodes = [:] }
      return state.nodes
    }
    for node in nodes.values { node.connection.close() }
  }

  /// The way to the node that has `slot`.
  func route(to slot: Int) -> RedisRoute {
    let (map, fault) = state.withLock { ($0.map, $0.fault) }
    guard let map else { return fault.map { .nowhere($0) } ?? .soon }
    guard let address = map.node(of: slot) else { return .nowhere(.missing(1)) }
    return .to(current().target(at: address, isNode: true))
  }

  /// Has the slots asked for now: somebody was told that one has moved.
  func lookAgain() { slots.probeSoon() }

  /// The connection to the node that has `slot`; nil while nobody is known to have it.
  func connection(for slot: Int) -> RedisConnection? {
    state.withLock { state in state.map?.node(of: slot).flatMap { state.nodes[$0]?.connection } }
  }

  /// A connection that stands; nil where there is none.
  var anyConnection: RedisConnection? {
    state.withLock { state in state.nodes.values.map(\.connection).first(where: \.isReady) }
  }

  /// The nodes that take writes, and of each that is away: its address, and why.
  var diagnosis: ClusterDiagnosis {
    state.withLock { state in
      let nodes = state.map?.nodes ?? []
      return ClusterDiagnosis(
        nodes: nodes, faults: nodes.compactMap { state.nodes[$0]?.fault?.reason },
        missing: state.map?.missing ?? RedisSlot.count)
    }
  }
}

// MARK: - Commands

extension RedisCluster {
  /// Sends `command`, whose keys lie in `slot`, to the node that has the slot, and where that node says that it is.
  /// - Returns: as `RedisConnection.call`; nil also after too many words of that kind.
  func call(_ command: RedisCommand, slot: Int) async -> RedisReply? {
    var (connection, isAsking) = (connection(for: slot), false)
    for attempt in 1...Self.attemptsMax {
      guard let present = connection else { return nil }
      let reply = await present.call(command, isAsking: isAsking)
      switch reply {
      // Another node may know its name by now.
      case .elsewhere(let redirection) where redirection.isNameless:
        lookAgain()
        guard await Pause.for(.milliseconds(10 * attempt)) else { return nil }
        (connection, isAsking) = (self.connection(for: slot), false)
      case .elsewhere(let redirection):
        let found = follow(redirection, by: present)
        // A node that was not known is being connected to.
        await Pause.poll(every: .milliseconds(5), until: .now + Self.newNodeMax) { found.isReady }
        (connection, isAsking) = (found, redirection.isForOnce)
      // Some of several keys have left the node, and some have not.
      case .error(code: "TRYAGAIN"):
        guard await Pause.for(.milliseconds(10 * attempt)) else { return nil }
        (connection, isAsking) = (self.connection(for: slot), false)
      default: return reply
      }
    }
    return nil
  }

  private func follow(_ redirection: RedisRedirection, by asked: RedisConnection) -> RedisConnection {
    if redirection.isForOnce { asks.add(1, ordering: .relaxed) } else { moves.add(1, ordering: .relaxed) }
    let (connection, changed) = state.withLock { state in
      let former = state.nodes.first { $0.value.connection === asked }?.key
      let address = redirection.address(by: former ?? .tcp(host: "", port: 0))
      if !redirection.isForOnce { state.map?.move(redirection.slot, to: address) }
      let connection = self.connection(to: address, &state)
      return (connection, redirection.isForOnce ? Self.nothing : state.changed)
    }
    changed()
    if !redirection.isForOnce { lookAgain() }
    return connection
  }

  private static let attemptsMax = 6
  /// As long as a hand-shake may take where all is well, since a caller waits for it.
  private static let newNodeMax = Duration.milliseconds(500)
}

// MARK: - What nodes say

extension RedisCluster {
  private func learned(_ map: SlotMap) {
    let (changed, former) = state.withLock { state in
      let isNew = state.map != map
      (state.map, state.fault) = (map, nil)
      let now = ContinuousClock.now
      for address in map.nodes { _ = connection(to: address, &state) }
      let former = state.nodes.filter { $0.value.expires < now }
      for address in former.keys { state.nodes[address] = nil }
      return (isNew ? state.changed : Self.nothing, former)
    }
    for node in former.values { node.connection.close() }
    changed()
    report()
  }

  private func slotsAway(_ fault: RedisLinkFault) {
    let changed = state.withLock { state in
      state.fault = fault
      return state.map == nil ? state.changed : Self.nothing
    }
    changed()
    report()
  }

  /// The connection to `address`, made if there is none; it is kept for another while.
  private func connection(to address: RedisEndpoint.Address, _ state: inout State) -> RedisConnection {
    let expires = ContinuousClock.now + Self.keptFor
    if let node = state.nodes[address] {
      state.nodes[address]?.expires = expires
      return node.connection
    }
    let route = { @Sendable [current] in RedisRoute.to(current().target(at: address, isNode: true)) }
    let connection = RedisConnection(
      by: route, role: .commands, probeKey: probeKey, limits: RedisConnection.Limits(), on: reactor)
    guard !state.isClosed else { return connection }
    state.nodes[address] = Node(connection: connection, expires: expires)
    connection.start { [weak self] event in
      switch event {
      case .ready: self?.nodeChanged(address, nil)
      case .away(let fault): self?.nodeChanged(address, fault)
      case .message, .answer, .slots: break
      }
    }
    return connection
  }

  private func nodeChanged(_ address: RedisEndpoint.Address, _ fault: RedisLinkFault?) {
    state.withLock { $0.nodes[address]?.fault = fault }
    // Another node may have its slots by now.
    if fault != nil { lookAgain() }
    report()
  }

  /// Tells whether all keys are served, when that has changed, and each reason why not.
  private func report() {
    let (handler, event) = state.withLock {
      state -> (@Sendable (RedisConnection.Event) -> Void, RedisConnection.Event?) in
      let (isServed, fault) = state.condition
      defer { state.isServed = isServed }
      if isServed { return (state.handler, state.isServed ? nil : .ready) }
      return (state.handler, fault.map { .away($0) })
    }
    if let event { handler(event) }
  }

  private static let nothing: @Sendable () -> Void = {}
  /// A node that has had no slots for so long, and got no command, is let go.
  private static let keptFor = Duration.seconds(60)
  /// The slots are this old at most, and a fail-over is followed that late.
  private static let slotLimits = RedisConnection.Limits(probeEvery: .seconds(1), pauseLongest: .seconds(1))
}

extension RedisCluster.State {
  /// Whether all keys are served, and if not, why, as far as is known.
  fileprivate var condition: (isServed: Bool, fault: RedisLinkFault?) {
    guard let map else { return (false, fault) }
    if map.missing > 0 { return (false, .missing(map.missing)) }
    let owners = map.nodes.compactMap { nodes[$0] }
    if let fault = owners.lazy.compactMap(\.fault).first { return (false, fault) }
    return (owners.count == map.nodes.count && owners.allSatisfy(\.connection.isReady), nil)
  }

  /// The nodes that may tell the slots: those that are known, then those of the endpoint.
  fileprivate mutating func nextCandidate(of endpoint: RedisEndpoint) -> RedisEndpoint.Address? {
    var candidates = map?.nodes ?? []
    for address in endpoint.addresses where !candidates.contains(address) { candidates.append(address) }
    guard !candidates.isEmpty else { return nil }
    defer { turn += 1 }
    return candidates[turn % candidates.count]
  }
}

extension RedisLinkFault {
  fileprivate static func missing(_ count: Int) -> RedisLinkFault {
    RedisLinkFault("the cluster of Redis serves not all keys: \(count) of \(RedisSlot.count) slots have no node")
  }
}
