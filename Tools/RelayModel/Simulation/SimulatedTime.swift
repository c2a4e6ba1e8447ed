import RelayCore

/// The moments of a simulation as the product's values want them.
struct SimulatedTime {
  private let instant = ContinuousClock.now
  /// A day of 2026: no value looks at which.
  private let timestamp = Timestamp(millis: 1_780_000_000_000)

  func instant(_ time: Duration) -> ContinuousClock.Instant { instant + time }
  func timestamp(_ time: Duration) -> Timestamp { timestamp.adding(time) }
  func since(_ instant: ContinuousClock.Instant) -> Duration { instant - self.instant }
}

extension Duration {
  var inSeconds: Double { self / .seconds(1) }
}

/// Numbers that look random and are the same for the same seed (SplitMix64).
struct SeededNumbers: RandomNumberGenerator, Sendable {
  private var state: UInt64

  init(seed: UInt64) { state = seed }

  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var value = state
    value = (value ^ (value >> 30)) &* 0xBF58_476D_1CE4_E5B9
    value = (value ^ (value >> 27)) &* 0x94D0_49BB_1331_11EB
    return value ^ (value >> 31)
  }

  /// 0 to 1.
  mutating func share() -> Double { Double.random(in: 0..<1, using: &self) }

  /// A pause between two events that come `perSecond` times a second: half of the mean to one and a half.
  mutating func pause(perSecond: Double) -> Duration { .seconds((0.5 + share()) / perSecond) }
}
