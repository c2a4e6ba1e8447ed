import RelayCore
import Synchronization
import X509

/// The leaf that each peer showed last, in a handshake of either direction: how long it is valid.
///
/// Bounded by `peersMax`, and by `keep(only:)`.
package final class SeenLeaves: Sendable {
  struct Leaf: Sendable, Equatable {
    let serial: [UInt8]
    let validUntil: Timestamp
  }

  static let peersMax = 10_000
  private let leaves = Mutex<[RelayName: Leaf]>([:])

  package init() {}

  /// - Parameter leaf: one that proved `name`.
  func note(_ leaf: Certificate, of name: RelayName) {
    let seen = Leaf(serial: leaf.serial, validUntil: leaf.validUntil)
    leaves.withLock { leaves in
      guard leaves[name] != nil || leaves.count < Self.peersMax else { return }
      leaves[name] = seen
    }
  }

  func leaf(of name: RelayName) -> Leaf? { leaves.withLock { $0[name] } }

  /// Forgets all others.
  func keep(only names: Set<RelayName>) {
    leaves.withLock { $0 = $0.filter { names.contains($0.key) } }
  }
}
