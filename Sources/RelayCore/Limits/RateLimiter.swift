/// Charges leaky buckets, atomically across all processes.
package protocol RateLimiter: Sendable {
  /// Never throws: when the shared state is away, each process falls back to buckets of its own.
  /// - Parameters:
  ///   - amount: below 0 gives back what was charged.
  ///   - key: who is charged. It is hashed before it leaves the process.
  func take(_ amount: Double, from limiter: LimiterName, key: LimitKey) async -> LimitDecision

  /// Takes all of `charges`, at most `WireLimits.limitChargesMax` for different buckets, or none: atomically, in one
  /// round trip. Never throws, as `take`.
  /// - Returns: the longest wait of those that refuse.
  func take(_ charges: [LimitCharge]) async -> LimitDecision

  /// Takes each of `takes`, one charge at least, by itself and in their order, as `take` does; in one round trip where
  /// that is possible.
  /// - Returns: one decision for each.
  func take(each takes: [[LimitCharge]]) async -> [LimitDecision]

  /// Takes `charges` as `take` does and, once they are allowed, each of `further` by itself, in their order: in one
  /// round trip where that is possible. `further` are for other buckets than `charges`.
  /// - Parameter charges: one at least.
  func take(_ charges: [LimitCharge], thenEach further: [LimitCharge]) async -> ChainedDecision

  /// The free space of a bucket just now, in charges: for showing it.
  func space(in limiter: LimiterName, key: LimitKey) async -> Double

  /// The size and rate of the buckets of `limiter`, as they are now.
  func shape(of limiter: LimiterName) -> Bucket
}
