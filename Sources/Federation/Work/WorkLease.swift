import RelayCore

/// Lets one process of an operator at a time do a piece of work that may take long.
struct WorkLease: Sendable {
  let store: any LeaseStore
  /// A random number of this process, or of this command.
  let holder: Int64
  /// Long enough to be renewed in spite of a slow store; what a process that died delays the others by.
  var duration = Duration.seconds(10)

  /// What ended first.
  private enum Ended<T: Sendable>: Sendable {
    case body(T)
    case lease
  }

  /// As `keep`, and gives the lease up afterwards.
  func hold<T: Sendable>(
    _ name: String, _ body: @escaping @Sendable () async -> T
  ) async throws(StoreError) -> T? {
    let result = try await keep(name, body)
    guard result != nil else { return nil }
    // In a task of its own: the caller's may be cancelled. A lease that cannot be given up ends by itself.
    await Task {
      do throws(StoreError) {
        try await release(name)
      } catch {}
    }.value
    return result
  }

  /// Takes or renews the lease `name`, and renews it while `body` runs, whatever that waits for; cancels it when the lease
  /// is lost. Afterwards the lease is still held, until it ends by itself.
  /// - Returns: what `body` returns, which says itself when it was cancelled; nil, without having run it, when another
  ///   process has the lease.
  func keep<T: Sendable>(
    _ name: String, _ body: @escaping @Sendable () async -> T
  ) async throws(StoreError) -> T? {
    guard try await acquire(name) else { return nil }
    return await withTaskGroup(of: Ended<T>.self) { group in
      group.addTask { .body(await body()) }
      group.addTask {
        await renew(name)
        return .lease
      }
      var result: T?
      for await ended in group {
        if case .body(let value) = ended { result = value }
        group.cancelAll()
      }
      return result
    }
  }

  func acquire(_ name: String) async throws(StoreError) -> Bool {
    try await store.acquireLease(name, holder: holder, for: duration)
  }

  /// Gives the lease up early; does nothing when another process has it.
  func release(_ name: String) async throws(StoreError) { try await store.releaseLease(name, holder: holder) }

  /// Returns when the lease is lost, or the task is cancelled.
  private func renew(_ name: String) async {
    while true {
      do {
        try await Task.sleep(for: duration * 3 / 10)
        guard try await acquire(name) else { return }
      } catch {
        // Cancelled, or the store is away, which `body` finds out too: the lease then ends by itself.
        return
      }
    }
  }
}
