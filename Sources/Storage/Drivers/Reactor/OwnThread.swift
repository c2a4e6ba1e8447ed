import CLibPQ
import Glibc
import RelayCore

/// A thread for one piece of work that may block: neither an event loop's nor one of Swift's shared pool.
enum OwnThread {
  /// Runs `work` on a new thread, which ends with it.
  /// - Parameter name: what tools show for the thread; its first 15 bytes count.
  /// - Throws: `.unavailable` when the system gives no thread; `work` never runs then.
  static func start(name: String, _ work: @escaping @Sendable () -> Void) throws(StoreError) {
    let owned = Unmanaged.passRetained(Work(name: name, work: work))
    var thread = pthread_t()
    let code = pthread_create(
      &thread, nil,
      { argument in
        guard let argument else { return nil }
        let own = Unmanaged<Work>.fromOpaque(argument).takeRetainedValue()
        relay_name_thread(own.name)
        own.work()
        return nil
      }, owned.toOpaque())
    guard code == 0 else {
      owned.release()
      throw .unavailable(reason: "pthread_create failed with errno \(code)")
    }
    pthread_detach(thread)
  }

  private final class Work: Sendable {
    let name: String
    let work: @Sendable () -> Void
    init(name: String, work: @escaping @Sendable () -> Void) {
      self.name = name
      self.work = work
    }
  }
}
