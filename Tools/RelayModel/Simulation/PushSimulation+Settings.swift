import RelayCore

extension PushSimulation {
  struct Settings: Sendable, Equatable {
    var seed: UInt64 = 1
    var provider = WakeProvider.apns
    /// Push services behind the provider, of which the first is in trouble: more than one with WebPush alone.
    var services = 1
    var devices = 100_000
    var wakesPerSecond = 100.0
    var awayAfter = 60.0
    var awaySeconds = 600.0
    /// Whether it takes connections and is silent; else it answers 503.
    var isSilent = true
    var answerMillis = 60.0
    /// How long the simulation goes on afterwards.
    var afterSeconds = 600.0

    /// - Throws: `ModelFailure` that names the value.
    func check() throws {
      guard services >= 1, services <= 100, provider == .webPush || services == 1 else {
        throw ModelFailure("--services goes from 1 to 100, and is 1 without webpush")
      }
      guard (1...10_000_000).contains(devices) else { throw ModelFailure("--devices goes from 1 to 10000000") }
      guard wakesPerSecond > 0, wakesPerSecond <= 100_000 else {
        throw ModelFailure("--wakes-per-second goes from 0 to 100000")
      }
      guard awaySeconds > 0, awaySeconds <= 80_000, (0...80_000).contains(awayAfter),
        (0...80_000).contains(afterSeconds)
      else { throw ModelFailure("the times go from 0 to 80000 s: a wake-up is worth sending for a day") }
      guard answerMillis > 0, answerMillis < 10_000 else { throw ModelFailure("--answer-millis goes from 0 to 10000") }
      guard wakesPerSecond * (awayAfter + awaySeconds + afterSeconds) <= 5_000_000 else {
        throw ModelFailure("that is more than 5 million wake-ups: take a lower rate or a shorter time")
      }
    }
  }

  struct Outcome: Sendable, Equatable {
    /// Messages for devices that are not connected.
    var asked = 0
    /// For a device that was to be woken anyway.
    var merged = 0
    var delivered = 0
    var waiting = 0
    var attempts = 0
    /// At the service in trouble, meanwhile.
    var attemptsWhileAway = 0
    /// Jobs that the breaker sent back, each time.
    var halted = 0
    /// In seconds from the moment at which the service went.
    var opened: [Double] = []
    /// In seconds from the moment at which it was back.
    var closed: [Double] = []
    /// In seconds from then: the last device is woken that should have been meanwhile; nil: not yet.
    var emptyAfter: Double?
    /// Of each service.
    var waits: [Waits]
    /// Devices to be woken, every second.
    var samples: [Sample] = []

    init(waits: [Waits]) { self.waits = waits }
    /// Nothing is lost: each wake-up is somewhere.
    var accounted: Int { merged + delivered + waiting }
  }
}
