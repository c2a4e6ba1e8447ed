import Synchronization

/// Connects the requests to stop this process (a signal, the operator's listener) with the drain.
package final class DrainControl: Sendable {
  /// Brings the window over which to drain, once.
  package let orders: AsyncStream<Duration>
  private let order: AsyncStream<Duration>.Continuation
  private let wasOrdered = Atomic(false)
  private struct Counting {
    var count: (@Sendable () -> Int)?
  }
  private let counting = Mutex(Counting())

  private let window: Duration

  /// - Parameter window: of an order that names none.
  package init(window: Duration) {
    self.window = window
    (orders, order) = AsyncStream.makeStream(of: Duration.self, bufferingPolicy: .bufferingOldest(1))
  }

  package var isDraining: Bool { wasOrdered.load(ordering: .acquiring) }
  package var connections: Int { counting.withLock { $0.count }?() ?? 0 }
  /// - Parameter connections: how many WebSockets are open at the moment; none before this is called.
  package func counts(_ connections: @escaping @Sendable () -> Int) { counting.withLock { $0.count = connections } }

  /// Orders the drain. - Returns: false when somebody has before: then it goes on over the window that it has.
  @discardableResult
  package func drain(over window: Duration? = nil) -> Bool {
    guard wasOrdered.compareExchange(expected: false, desired: true, ordering: .acquiringAndReleasing).exchanged
    else { return false }
    order.yield(window ?? self.window)
    order.finish()
    return true
  }
}
