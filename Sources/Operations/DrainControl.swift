import Synchronization

/// Where those meet who want this process to stop (a signal, the operator's listener) and what drains it.
package final class DrainControl: Sendable {
  /// Brings the window over which to drain, once.
  package let orders: AsyncStream<Duration>
  private let order: AsyncStream<Duration>.Continuation
  private let wasOrdered = Atomic(false)
  private let count: @Sendable () -> Int

  /// - Parameter connections: how many WebSockets are open at the moment.
  package init(connections: @escaping @Sendable () -> Int) {
    count = connections
    (orders, order) = AsyncStream.makeStream(of: Duration.self, bufferingPolicy: .bufferingOldest(1))
  }

  package var isDraining: Bool { wasOrdered.load(ordering: .acquiring) }
  package var connections: Int { count() }

  /// Orders the drain. - Returns: false when somebody has before: then it goes on over the window that it has.
  @discardableResult
  package func drain(over window: Duration) -> Bool {
    guard wasOrdered.compareExchange(expected: false, desired: true, ordering: .acquiringAndReleasing).exchanged
    else { return false }
    order.yield(window)
    order.finish()
    return true
  }
}
