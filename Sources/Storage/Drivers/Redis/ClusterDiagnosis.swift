package import RelayCore

/// Facts of a cluster of Redis as this process knows them, for `relay doctor`.
package struct ClusterDiagnosis: Sendable, Equatable {
  /// The nodes that take writes.
  package let nodes: [RedisEndpoint.Address]
  /// Of each of them that is away: its address, and why.
  package let faults: [String]
  /// Slots that no node has.
  package let missing: Int
}
