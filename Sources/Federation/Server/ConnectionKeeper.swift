import Logging
import NIOCore
import RelayCore
import RelayWork
import Synchronization

/// Ends connections whose holder may not connect any more, and bounds how many each holder has.
///
/// Every process does so for its own connections, as soon as its registry has heard of a change: within a second, or
/// two when signals are lost. Requests that are under way then have 2 s to end.
final class ConnectionKeeper: Sendable {
  private struct State {
    var table: ConnectionTable
    var channels: [ConnectionTable.ID: any Channel] = [:]
  }

  private let registry: PeerRegistry
  private let store: any PeerStore
  private let clock: WallClock
  private let logger: Logger
  private let refusals: PeerCounters
  private let refusalLog = RefusalLog()
  private let state: Mutex<State>

  /// How long open requests of a connection that must end may take.
  static let grace = TimeAmount.seconds(2)
  /// For what no change of the registry tells: certificates that end, strangers that stay.
  static let reviewInterval = Duration.seconds(1)

  /// - Parameter perPeerMax: connections of one peer.
  init(
    registry: PeerRegistry, store: any PeerStore, perPeerMax: Int, clock: WallClock, refusals: PeerCounters,
    logger: Logger
  ) {
    self.registry = registry
    self.store = store
    self.clock = clock
    self.refusals = refusals
    self.logger = logger
    state = Mutex(State(table: ConnectionTable(perHolderMax: perPeerMax)))
  }

  /// Keeps `channel` in view while `serve` runs; closes it when its holder has as many as it may.
  ///
  /// `serve` runs in any case: `PeerGate` refuses what proved nothing, and a channel must not be dropped.
  func serve(_ channel: any Channel, _ identity: ConnectionIdentity, _ serve: () async -> Void) async {
    let peers = registry.current
    let id = state.withLock { state in
      let id = state.table.opened(identity, among: peers, at: .now)
      if let id { state.channels[id] = channel }
      return id
    }
    if id == nil { refuse(channel, identity) }
    await serve()
    guard let id else { return }
    state.withLock { state in
      state.table.closed(id)
      state.channels[id] = nil
    }
  }

  /// Reviews the open connections until cancelled.
  func run() async {
    let wakeUps = Nudge()
    registry.onChange(ofConditions: false) { _ in wakeUps.wake() }
    await withTaskGroup(of: Void.self) { group in
      group.addTask {
        for await _ in wakeUps { await self.review() }
      }
      group.addTask { await wakeUps.wake(every: Self.reviewInterval, from: .afterInterval) }
    }
  }

  private func review() async {
    guard registry.hasBeenRead else { return }
    let hasStrangers = state.withLock { $0.table.hasStrangers }
    let hasInvitation = hasStrangers ? await hasOpenInvitation() : false
    // A stranger that has just redeemed the last invitation is a peer: read before it is judged.
    if hasStrangers, !hasInvitation { await registry.refresh() }
    let (peers, now, date) = (registry.current, ContinuousClock.now, clock.now())
    let ending = state.withLock { state in
      state.table.review(against: peers, hasInvitation: hasInvitation, at: now, date: date)
        .compactMap { end in state.channels[end.id].map { (channel: $0, name: end.name, why: end.end) } }
    }
    for (channel, name, why) in ending {
      logger.notice(
        "federation: connection closed", metadata: ["peer": "\(name)", "reason": "\(why.rawValue)"])
      // HTTP/2 says goodbye and HTTP/1.1 ends behind its answer.
      channel.pipeline.fireUserInboundEventTriggered(ChannelShouldQuiesceEvent())
      channel.eventLoop.scheduleTask(in: Self.grace) { channel.close(promise: nil) }
    }
  }

  private func hasOpenInvitation() async -> Bool {
    do {
      return try await store.hasOpenInvitation(now: clock.now())
    } catch {
      return true  // Not known: the strangers' time runs out in any case.
    }
  }

  private func refuse(_ channel: any Channel, _ identity: ConnectionIdentity) {
    channel.close(promise: nil)
    let remote = channel.remoteAddress?.ipAddress ?? "unknown"
    let reason = "too many connections of one holder"
    if let peer = registry.current.peer(proving: identity) { refusals.add(of: peer.name, "connections") }
    guard let count = refusalLog.count(remote: remote, reason: reason) else { return }
    logger.warning(
      "federation: connection refused",
      metadata: ["remote": "\(remote)", "peer": "\(identity.name)", "reason": "\(reason)", "count": "\(count)"])
  }
}
