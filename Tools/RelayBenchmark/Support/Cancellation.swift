import Synchronization

/// Carries the cancellation of a task to blocking work on a thread that no task runs on.
final class Cancellation: Sendable {
  private let isSet = Atomic(false)

  /// - Throws: `CancellationError` when the task was cancelled.
  func check() throws(CancellationError) {
    if isSet.load(ordering: .relaxed) { throw CancellationError() }
  }

  /// Runs `body` with one that follows the present task.
  static func watch<Value: Sendable>(_ body: (Cancellation) async throws -> Value) async throws -> Value {
    let cancellation = Cancellation()
    return try await withTaskCancellationHandler {
      try await body(cancellation)
    } onCancel: {
      cancellation.isSet.store(true, ordering: .relaxed)
    }
  }
}
