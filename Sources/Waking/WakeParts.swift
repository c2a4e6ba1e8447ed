package import Logging
package import Push
package import RelayCore
package import RelayWork

/// The parts that waking needs.
package struct WakeParts: Sendable {
  package let store: any WakeStore & AccountStore & MessageStore
  package let signals: any SignalBus
  package let live: any LiveDevices
  /// The envelope of reference 2.4 under a device's signaling key; nil when the key cannot be used.
  package let seal: @Sendable (Envelope, Secret) -> [UInt8]?
  /// One for each provider that is configured.
  package let lanes: [WakeProvider: PushLane]
  /// Wakes the workers: there may be a device to be woken.
  package let bell: NudgeGroup
  package let metrics: WakeMetrics
  package let clock: WallClock
  package let logger: Logger

  package init(
    store: any WakeStore & AccountStore & MessageStore, signals: any SignalBus, live: any LiveDevices,
    seal: @escaping @Sendable (Envelope, Secret) -> [UInt8]?, lanes: [WakeProvider: PushLane], bell: NudgeGroup,
    metrics: WakeMetrics, clock: WallClock, logger: Logger
  ) {
    self.store = store
    self.signals = signals
    self.live = live
    self.seal = seal
    self.lanes = lanes
    self.bell = bell
    self.metrics = metrics
    self.clock = clock
    self.logger = logger
  }
}

extension PushLane {
  /// The relay's own lane to a provider. It tries nothing again, but for what was on a connection that is lost: jobs
  /// are, and they outlive the process.
  package static func forWaking(
    by provider: WakeProvider, _ service: any PushProvider, clock: WallClock, logger: Logger
  ) -> PushLane {
    let name = PushLaneName(provider.lane, app: "relay")
    return PushLane(
      name, provider: service, limits: .forWaking(by: provider), retries: provider == .apns ? .lostConnections : .none,
      clock: clock, logger: logger)
  }
}

extension PushLaneLimits {
  /// The limits of the relay's own lane to a provider.
  package static func forWaking(by provider: WakeProvider) -> PushLaneLimits {
    var limits = PushLaneLimits()
    switch provider {
    // Streams of few connections.
    case .apns: limits.workersMax = 200
    case .fcm: limits.workersMax = 20
    case .webPush: limits.workersMax = 80
    }
    // A push service that answers slowly leaves most to the others.
    limits.destinationWorkersMax = provider == .webPush ? limits.workersMax / 4 : limits.workersMax
    if provider == .webPush {
      limits.destinationHeldMax = limits.heldMax / 2
      // Devices name their push services. Silent ones leave room to those that answer, whatever their number.
      limits.unprovenHeldMax = limits.heldMax / 2
      limits.unprovenWorkersMax = limits.workersMax / 2
    }
    return limits
  }
}

extension WakeProvider {
  fileprivate var lane: PushLaneName.Provider {
    switch self {
    case .apns: .apns
    case .fcm: .fcm
    case .webPush: .webPush
    }
  }
}
