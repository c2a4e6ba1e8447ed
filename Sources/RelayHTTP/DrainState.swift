import Synchronization

/// Whether the process is about to stop: from then on clients are sent elsewhere, and what has begun is finished.
package final class DrainState: Sendable {
  private let hasBegun = Atomic(false)

  package init() {}

  package var isDraining: Bool { hasBegun.load(ordering: .acquiring) }

  /// From now on each answer over HTTP/1.1 is the last of its connection and says so, and new WebSockets are refused.
  /// HTTP/2 learns of it when the listener stops.
  package func begin() { hasBegun.store(true, ordering: .releasing) }
}
