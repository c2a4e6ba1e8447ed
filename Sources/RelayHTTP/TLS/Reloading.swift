package import Logging
import RelayCore
import RelayWork
import ServiceLifecycle
import Synchronization

/// A value made of files, made anew when they change: certificates and keys are replaced under a running relay.
///
/// A change that cannot be loaded is logged once and the former value stays.
package final class Reloading<Value: Sendable, Failure: Error>: Service {
  private struct State {
    var value: Value
    var stamps: [FileStamp?]
  }

  private let files: [String]
  private let interval: Duration
  private let logger: Logger
  private let load: @Sendable () throws(Failure) -> Value
  private let state: Mutex<State>

  /// - Parameters:
  ///   - files: all that `load` reads.
  ///   - interval: how often their modification times are looked at while the service runs.
  package init(
    files: [String], interval: Duration = .seconds(2), logger: Logger,
    load: @escaping @Sendable () throws(Failure) -> Value
  ) throws(Failure) {
    self.files = files
    self.interval = interval
    self.logger = logger
    self.load = load
    // Looked at before they are read: a change in between shows as one at the next look.
    let stamps = files.map { FileStamp($0) }
    state = Mutex(State(value: try load(), stamps: stamps))
  }

  package var current: Value { state.withLock { $0.value } }

  /// Loads anew if a file has changed since the last look.
  /// - Returns: whether `current` is a new value.
  @discardableResult
  package func reloadIfChanged() -> Bool {
    let stamps = files.map { FileStamp($0) }
    let isChanged = state.withLock { state in
      defer { state.stamps = stamps }
      return state.stamps != stamps
    }
    guard isChanged else { return false }
    do {
      let value = try load()
      state.withLock { $0.value = value }
      logger.notice("files reloaded", metadata: ["files": .array(files.map { .string($0) })])
      return true
    } catch {
      logger.error("changed files cannot be loaded, the former content stays", metadata: ["error": "\(error)"])
      return false
    }
  }

  package func run() async throws {
    await cancelWhenGracefulShutdown {
      for await _ in Periodic(every: self.interval, from: .afterInterval) { self.reloadIfChanged() }
    }
  }
}
