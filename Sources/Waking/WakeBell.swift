import Synchronization

/// Tells those who listen that there may be something to do. What rings while they work is heard once, afterwards.
package final class WakeBell: Sendable {
  private let listeners = Mutex<[AsyncStream<Void>.Continuation]>([])

  package init() {}

  package func ring() { for listener in listeners.withLock({ $0 }) { listener.yield() } }

  /// - Parameter listener: keeps the newest ring alone. Told for as long as the process lives.
  func add(_ listener: AsyncStream<Void>.Continuation) { listeners.withLock { $0.append(listener) } }
}
