/// Messages of the same bytes over ejabberd, on the same machine and PostgreSQL.
struct EjabberdFigures: Sendable, Encodable {
  struct Figure: Sendable, Encodable {
    /// nil for a closed loop.
    let pacePerSecond: Int?
    /// Stored, or delivered.
    let messages: Int
    let perSecond: Double
    /// Of deliveries, to the recipient; nil of stored messages, which nobody is told of.
    let p50Millis: Double?
    let p99Millis: Double?
    let cpuSecondsPerThousand: CPUPerThousand
  }
  /// For users who never connect: stored in PostgreSQL.
  let offline: Figure
  /// For users who are connected: not stored.
  let online: [Figure]
}
