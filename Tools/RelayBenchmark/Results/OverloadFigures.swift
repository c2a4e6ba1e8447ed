/// The behaviour under more requests than can be answered.
struct OverloadFigures: Sendable, Encodable {
  /// One load, and what became of it.
  struct Load: Sendable, Encodable {
    /// Offered, in what is accepted at most.
    let times: Double
    let offeredPerSecond: Double
    /// Those that found a free connection: the others were lost by this program.
    let sentPerSecond: Double
    /// Accepted within two seconds.
    let goodputPerSecond: Double
    /// Of the peak; 0.8 is to be kept.
    let share: Double
    let p50Millis: Double
    let p99Millis: Double
    let refusedPerSecond: Double
    /// 0...1: refusals that say when to come again.
    let refusedUntilShare: Double
    let refusedP50Millis: Double
    let refusedP99Millis: Double
    /// Accepted after more than two seconds.
    let latePerSecond: Double
    /// CPU seconds of all servers, for each 1,000 accepted.
    let cpuSecondsPerThousand: Double
    /// From when the load fell to half of the peak until latencies were the normal ones and stayed so; nil when they did
    /// not within the time measured. 5 is to be kept.
    var secondsToRecover: Double?
  }

  /// How long each load's end is watched.
  static let recoverySeconds = 10.0

  /// Accepted in a closed loop.
  let peakPerSecond: Double
  /// At half of the peak, in an open loop.
  let normal: Load
  let overloads: [Load]
}

extension OverloadFigures.Load {
  init(times: Double, _ slices: ArraySlice<OpenLoop.Slice>, peak: Double, cpuSeconds: Double) {
    let seconds = max(OpenLoop.sliceSeconds, Double(slices.count) * OpenLoop.sliceSeconds)
    let accepted = slices.reduce(into: LatencyHistogram()) { $0.add($1.accepted) }
    let refused = slices.reduce(into: LatencyHistogram()) { $0.add($1.refused) }
    self.times = times
    offeredPerSecond = Double(slices.reduce(0) { $0 + $1.offered }) / seconds
    sentPerSecond = Double(slices.reduce(0) { $0 + $1.sent }) / seconds
    goodputPerSecond = Double(accepted.count) / seconds
    share = peak > 0 ? goodputPerSecond / peak : 0
    p50Millis = accepted.quantile(0.5).millis
    p99Millis = accepted.quantile(0.99).millis
    refusedPerSecond = Double(refused.count) / seconds
    refusedUntilShare = Double(slices.reduce(0) { $0 + $1.refusedUntil }) / Double(max(1, refused.count))
    refusedP50Millis = refused.quantile(0.5).millis
    refusedP99Millis = refused.quantile(0.99).millis
    latePerSecond = Double(slices.reduce(0) { $0 + $1.late }) / seconds
    cpuSecondsPerThousand = cpuSeconds / Double(max(1, accepted.count)) * 1000
  }
}
