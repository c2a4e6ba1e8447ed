/// The outcomes of the push gateway's pushes, visible to all processes. They may be lost: then a repeat is pushed
/// again.
package protocol PushBoard: Sendable {
  /// Claims each of `pushes` that is neither claimed nor settled. A claim that is not settled ends by itself, after
  /// more time than a request may take.
  /// - Parameter claimant: one for each process.
  /// - Returns: one for each of `pushes`; nil when nobody can tell.
  func claim(_ pushes: [PushMark], by claimant: UInt64) async -> [PushClaim]?

  /// Says what became of claimed pushes; nil gives a claim back.
  func settle(_ pushes: [(push: PushMark, result: PushResult?)], by claimant: UInt64) async
}

/// Names a push: a hash, so that no push key is kept.
package struct PushMark: Sendable, Hashable {
  package let bytes: [UInt8]
  package init(_ bytes: [UInt8]) { self.bytes = bytes }
}

/// The remembered outcome of a push.
package enum PushResult: Sendable, Equatable {
  case served
  case rejected
}

package enum PushClaim: Sendable, Equatable {
  /// To be pushed by the claimant, who must settle it.
  case ours
  /// By another process.
  case underWay
  case settled(PushResult)
}
