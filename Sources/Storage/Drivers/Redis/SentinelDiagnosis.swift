package import RelayCore

/// Facts that the sentinels of a group tell, for `relay doctor`.
package struct SentinelDiagnosis: Sendable, Equatable {
  /// nil while none is known.
  package let primary: RedisEndpoint.Address?
  /// The sentinels that are configured.
  package let count: Int
  /// Of each sentinel that does not answer: its address, and why.
  package let faults: [String]
  /// The sentinels that answer and name another primary, or none.
  package let dissenters: [RedisEndpoint.Address]
  /// Whether enough sentinels reach each other to replace the primary; nil when none lets us ask.
  package let canReplace: Bool?
}
