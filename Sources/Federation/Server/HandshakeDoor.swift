import HummingbirdCore
import Logging
import Metrics
import NIOCore
import RelayCore
import RelayHTTP
import RelayMetrics
import Synchronization

/// Stands before the handshake: says which connections may begin one, and ends those that have no place any more.
final class HandshakeDoor: Sendable {
  private struct State {
    var places: HandshakePlaces
    var channels: [HandshakePlaces.ID: any Channel] = [:]
    var ids: [ObjectIdentifier: HandshakePlaces.ID] = [:]
  }

  let sources: PeerSources
  private let balancers: [AddressRange]
  private let state: Mutex<State>
  private let logger: Logger
  private let refusalLog = RefusalLog()
  private let refused: [HandshakePlaces.Refusal: Counter]
  private let proved = RelayMetric.peerEdge.handshakes.counter(.peer)
  private let stranger = RelayMetric.peerEdge.handshakes.counter(.stranger)
  private let unfinished = RelayMetric.peerEdge.handshakes.counter(.unfinished)

  /// - Parameter balancers: what passes connections of others on, without saying whose.
  init(_ bounds: HandshakeBounds, sources: PeerSources, balancers: [AddressRange], logger: Logger) {
    self.sources = sources
    self.balancers = balancers
    self.logger = logger
    state = Mutex(State(places: HandshakePlaces(bounds)))
    refused = Dictionary(
      uniqueKeysWithValues: HandshakePlaces.Refusal.allCases.map {
        ($0, RelayMetric.peerEdge.connectionsRefused.counter(.reason($0.rawValue)))
      })
  }

  /// Takes a place for `channel` until its handshake ends. To be called before anything is read from it.
  /// - Returns: false when it must be closed.
  func admit(_ channel: any Channel) -> Bool {
    let address = channel.remoteAddress.flatMap { ClientAddress($0) }
    let source = address.map { Array($0.customer) } ?? []
    let kind = kind(address, source)
    let (verdict, displaced) = state.withLock { state -> (HandshakePlaces.Verdict, (any Channel)?) in
      let verdict = state.places.opened(from: source, kind, at: .now)
      guard case .admitted(let id, let displaced) = verdict else { return (verdict, nil) }
      state.channels[id] = channel
      state.ids[ObjectIdentifier(channel)] = id
      return (verdict, displaced.flatMap { Self.remove($0, from: &state) })
    }
    if case .refused(let reason) = verdict {
      refuse(channel, reason)
      return false
    }
    if let displaced {
      refuse(displaced, .displaced)
      displaced.close(promise: nil)
    }
    channel.closeFuture.whenComplete { [self] _ in if leave(channel, provesPeer: false) { unfinished.increment() } }
    return true
  }

  /// The handshake of `channel` is over.
  /// - Parameter peer: whom it proved; nil for a stranger.
  func shookHands(_ channel: any Channel, as peer: RelayName?) {
    guard leave(channel, provesPeer: peer != nil) else { return }
    (peer == nil ? stranger : proved).increment()
    guard let peer, let address = channel.remoteAddress.flatMap({ ClientAddress($0) }) else { return }
    // A connection from a balancer tells nothing about the peer's own address.
    if !balancers.contains(where: { $0.contains(address) }) { sources.came(peer, from: Array(address.customer)) }
  }

  private func kind(_ address: ClientAddress?, _ source: HandshakePlaces.Source) -> HandshakePlaces.Kind {
    if let address, balancers.contains(where: { $0.contains(address) }) { return .balancer }
    return sources.contains(source) ? .known : .stranger
  }

  /// - Returns: whether it had a place still.
  private func leave(_ channel: any Channel, provesPeer: Bool) -> Bool {
    state.withLock { state in
      guard let id = state.ids[ObjectIdentifier(channel)] else { return false }
      _ = Self.remove(id, from: &state)
      state.places.ended(id, provesPeer: provesPeer, at: .now)
      return true
    }
  }

  private static func remove(_ id: HandshakePlaces.ID, from state: inout State) -> (any Channel)? {
    guard let channel = state.channels.removeValue(forKey: id) else { return nil }
    state.ids[ObjectIdentifier(channel)] = nil
    return channel
  }

  private func refuse(_ channel: any Channel, _ reason: HandshakePlaces.Refusal) {
    refused[reason]?.increment()
    let remote = channel.remoteAddress?.ipAddress ?? "unknown"
    guard let count = refusalLog.count(remote: remote, reason: reason.rawValue) else { return }
    logger.warning(
      "federation: connection refused before its handshake",
      metadata: ["remote": "\(remote)", "reason": "\(reason.rawValue)", "count": "\(count)"])
  }
}

/// Sets up those connections alone that `door` admits: the others are closed as they are accepted, before anything is
/// allocated for them.
struct GuardedChannel<Base: ServerChildChannel>: ServerChildChannel {
  typealias Value = Base.Value
  private struct Refused: Error {}

  private let base: Base
  private let door: HandshakeDoor

  init(_ base: Base, door: HandshakeDoor) {
    self.base = base
    self.door = door
  }

  func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Base.Value> {
    guard door.admit(channel) else {
      channel.close(promise: nil)
      return channel.eventLoop.makeFailedFuture(Refused())
    }
    return base.setup(channel: channel, logger: logger)
  }

  func handle(value: Base.Value, logger: Logger) async { await base.handle(value: value, logger: logger) }
}
