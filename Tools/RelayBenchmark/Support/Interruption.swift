import Dispatch
import Glibc
import Synchronization

/// The signal by which a person, or the system, ends the benchmark.
final class Interruption: Sendable {
  private let received = Mutex<Int32?>(nil)

  /// The first that came; nil while none has.
  var signal: Int32? { received.withLock { $0 } }

  /// From now on SIGINT, SIGTERM and SIGHUP call `handler` instead of ending the process.
  /// - Returns: what listens, as long as it is kept.
  func listen(_ handler: @escaping @Sendable () -> Void) -> [any DispatchSourceSignal] {
    [SIGINT, SIGTERM, SIGHUP].map { number in
      Glibc.signal(number, SIG_IGN)
      let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
      source.setEventHandler {
        self.received.withLock { if $0 == nil { $0 = number } }
        handler()
      }
      source.activate()
      return source
    }
  }
}
