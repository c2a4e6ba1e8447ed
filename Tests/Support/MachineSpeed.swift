/// Bounds of time in tests are made for an idle machine. A slower or busier one is allowed more.
package enum MachineSpeed {
  /// How many times longer a fixed piece of work takes here than on the machine that bounds are made for: 1 to 5.
  /// Measured once, when it is first asked for, and so beside the tests that run then.
  package static let factor = min(max(1, measured() / reference), 5)

  /// `bound`, as long as this machine needs for it.
  package static func allow(_ bound: Duration) -> Duration { bound * factor }

  /// A debug build on two idle cores of 2024.
  private static let reference = Duration.milliseconds(60)

  private static func measured() -> Duration {
    let began = ContinuousClock.now
    var values = [UInt64](repeating: 1, count: 4096)
    for round in 0..<1000 {
      for index in values.indices {
        values[index] = values[index] &* 6_364_136_223_846_793_005 &+ UInt64(truncatingIfNeeded: round ^ index)
      }
    }
    // The sum is used, so that no compiler leaves the work out.
    return values.reduce(0, ^) == 0 ? .zero : ContinuousClock.now - began
  }
}
