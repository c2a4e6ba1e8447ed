import Logging
import RelayCore
import RelayHTTP
import Synchronization

/// The devices to be that wait at this process for what another device has to tell them (reference 1.14).
///
/// They have no credentials: so that nobody fills the process with them, there are few at one client address, and not
/// many in all.
package final class ProvisioningRegistry: Sendable {
  private struct State {
    var sessions: [ProvisioningAddress: ProvisioningSession] = [:]
    /// Admitted ones, by client address.
    var shares = AddressShares(perAddress: ProvisioningRegistry.placesPerAddress)
    var admitted = 0
    var round = 0
  }

  private let presence: any Presence
  private let metrics: LiveMetrics
  private let logger: Logger
  private let state = Mutex(State())

  init(presence: any Presence, metrics: LiveMetrics, logger: Logger) {
    self.presence = presence
    self.metrics = metrics
    self.logger = logger
  }

  var count: Int { state.withLock { $0.sessions.count } }
  var sessions: [any LiveSession] { state.withLock { Array($0.sessions.values) } }

  func admit(_ origin: RequestOrigin) -> SocketAdmission {
    guard let place = take(origin) else {
      return .refused(Problem(.rateLimited, retryAfter: Self.idle))
    }
    return .admitted(limits: Self.limits) { [self, logger] socket in
      ProvisioningSession(socket, at: place, registry: self, metrics: metrics, logger: logger)
    }
  }

  /// Hands `bytes` to whoever waits at `address`, here or at another process. - Returns: false when nobody does.
  func handOver(_ bytes: [UInt8], to address: ProvisioningAddress) async -> Bool {
    guard isHere(address) else { return await presence.handOver(bytes, to: address) }
    return handedOver(bytes, to: address)
  }

  /// - Returns: false when nobody waits there at this process, or not any more.
  @discardableResult
  func handedOver(_ bytes: [UInt8], to address: ProvisioningAddress) -> Bool {
    guard let session = state.withLock({ $0.sessions[address] }), session.handedOver(bytes) else { return false }
    // Other processes find nobody there from now on.
    Task { [presence] in await presence.leave(address) }
    return true
  }

  // MARK: Coming and going

  /// At once: it may leave before anything else happens.
  func enter(_ session: ProvisioningSession, at address: ProvisioningAddress) {
    state.withLock { $0.sessions[address] = session }
    metrics.show(provisionings: count)
  }

  /// On return every process finds the session at `address`.
  func announce(_ address: ProvisioningAddress) async {
    guard waits(at: address) else { return }
    await presence.enter(address)
    // It may have gone meanwhile.
    if !waits(at: address) { await presence.leave(address) }
  }

  private func waits(at address: ProvisioningAddress) -> Bool {
    state.withLock { $0.sessions[address]?.isWaiting ?? false }
  }

  private func isHere(_ address: ProvisioningAddress) -> Bool { state.withLock { $0.sessions[address] != nil } }

  func left(_ address: ProvisioningAddress) {
    guard state.withLock({ $0.sessions.removeValue(forKey: address) }) != nil else { return }
    metrics.show(provisionings: count)
    Task { [presence] in await presence.leave(address) }
  }

  /// Called each second; every 15th time all entries are renewed. A device that has waited for too long has to come
  /// again: places are few, and a person waits for a device that is to be linked.
  func renew(at now: ContinuousClock.Instant = .now) async {
    let old = state.withLock { $0.sessions.values.filter { $0.began + Self.lifetime < now } }
    for session in old { session.end(.tooOld) }
    let addresses = state.withLock { state in
      state.round = (state.round + 1) % Self.renewalRound
      return state.round == 0 ? Array(state.sessions.keys) : []
    }
    for start in stride(from: 0, to: addresses.count, by: Self.renewalsAtOnce) {
      await withTaskGroup(of: Void.self) { group in
        for address in addresses[start...].prefix(Self.renewalsAtOnce) {
          group.addTask { await self.announce(address) }
        }
      }
    }
  }

  // MARK: Places

  /// One of the places of a client address; given back when nobody holds it any more.
  final class Place: Sendable {
    private let registry: ProvisioningRegistry
    private let origin: RequestOrigin

    fileprivate init(_ registry: ProvisioningRegistry, _ origin: RequestOrigin) {
      self.registry = registry
      self.origin = origin
    }

    deinit { registry.giveBack(origin) }
  }

  private func take(_ origin: RequestOrigin) -> Place? {
    let isTaken = state.withLock { state in
      guard state.admitted < Self.placesMax, state.shares.hasRoom(for: origin) else { return false }
      state.admitted += 1
      state.shares.take(origin)
      return true
    }
    return isTaken ? Place(self, origin) : nil
  }

  private func giveBack(_ origin: RequestOrigin) {
    state.withLock { state in
      state.admitted -= 1
      state.shares.giveBack(origin)
    }
  }

  private static let placesMax = 2000
  /// People behind one address who link devices within the same minute, or tests of one machine.
  private static let placesPerAddress = 50
  private static let lifetime = Duration.seconds(900)
  private static let renewalRound = 15
  private static let renewalsAtOnce = 100
  /// A provisioning socket says little: keep-alives, and one answer.
  private static let idle = Duration.seconds(60)
  private static let limits = SocketLimits(messageBytesMax: 4096, burst: 20, perSecond: 1, idle: idle)
}
