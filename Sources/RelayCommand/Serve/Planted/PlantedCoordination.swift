#if PLANTED_FAULTS
  import RelayCore

  /// Refuses nothing.
  struct PlantedLimiter: RateLimiter {
    func take(_ amount: Double, from limiter: LimiterName, key: LimitKey) async -> LimitDecision { .allowed }
    func take(_ charges: [LimitCharge]) async -> LimitDecision { .allowed }
    func space(in limiter: LimiterName, key: LimitKey) async -> Double { .infinity }
    func shape(of limiter: LimiterName) -> Bucket { limiter.defaultBucket }
  }

  /// Keeps from this process that others hold newer connections.
  struct PlantedPresence: Presence {
    private let presence: any Presence

    init(_ presence: any Presence) { self.presence = presence }

    func hear(_ handler: @escaping @Sendable (PresenceEvent) -> Void) {
      presence.hear { event in
        if case .displaced = event { return }
        handler(event)
      }
    }

    func enter(_ connection: LiveConnection) async -> Bool { await presence.enter(connection) }
    func leave(_ connection: LiveConnection) async { await presence.leave(connection) }
    func forget(_ devices: [DeviceAddress]) async -> Bool { await presence.forget(devices) }
    func renew(_ connections: [LiveConnection]) async -> PresenceRenewal { await presence.renew(connections) }
    func wake(_ devices: [DeviceAddress]) async -> WakeUpOutcome { await presence.wake(devices) }
    func rollCall(silence: Duration) async -> Int { await presence.rollCall(silence: silence) }
    func enter(_ address: ProvisioningAddress) async { await presence.enter(address) }
    func leave(_ address: ProvisioningAddress) async { await presence.leave(address) }
    func handOver(_ bytes: [UInt8], to address: ProvisioningAddress) async -> Bool {
      await presence.handOver(bytes, to: address)
    }
  }
#endif
