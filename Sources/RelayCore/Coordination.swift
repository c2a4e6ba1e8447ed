// The state that the processes of one operator share besides durable storage. All of it may be lost.

/// Limits, signals, presence, and their life.
package protocol Coordination: RateLimiter, SignalBus, Presence, ContactBudget {
  /// Gives the limiters other shapes from here on. Charges made before stay in force.
  /// - Parameter buckets: those that differ from `LimiterName.defaultBucket`.
  func setLimits(_ buckets: [LimiterName: Bucket])
  /// nil when shared state is served, else why not, for `/readyz` and metrics.
  func degradation() async -> String?
  /// nil when nothing outlives this process.
  var epochWitness: (any EpochWitness)? { get }
  /// nil when there is one process.
  var pushBoard: (any PushBoard)? { get }
  /// Settles the charges that are not written yet, then closes the connections to shared state.
  func close() async
}
