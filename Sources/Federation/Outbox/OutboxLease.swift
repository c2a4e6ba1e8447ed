import RelayCore

/// Lets one process at a time work on a peer's outbox.
struct OutboxLease: Sendable {
  let store: any LeaseStore
  /// A random number of this process, or of this command.
  let holder: Int64

  /// Long enough to be renewed in spite of a slow store; what a process that died delays the others by.
  static let duration = Duration.seconds(10)
  private static let renewal = Duration.seconds(3)

  /// Runs `body` while the lease is held; cancels it when the lease is lost.
  /// - Returns: false, without having run it, when another process has the lease.
  func hold(for relay: RelayName, _ body: @escaping @Sendable () async throws(Problem) -> Void) async throws(Problem)
    -> Bool
  {
    let name = "outbox \(relay)"
    guard try await acquire(name) else { return false }
    let result: Result<Void, Problem> = await withTaskGroup(of: Result<Void, Problem>?.self) { group in
      group.addTask {
        do throws(Problem) {
          return .success(try await body())
        } catch {
          return .failure(error)
        }
      }
      group.addTask {
        await keep(name)
        return nil
      }
      var result = Result<Void, Problem>.success(())
      for await ended in group {
        if let ended { result = ended }
        group.cancelAll()
      }
      return result
    }
    await release(name)
    try result.get()
    return true
  }

  /// Returns when the lease is lost, or the task is cancelled.
  private func keep(_ name: String) async {
    while true {
      do {
        try await Task.sleep(for: Self.renewal)
        guard try await acquire(name) else { return }
      } catch {
        // Cancelled, or the store is away, which `body` finds out too: the lease then ends by itself.
        return
      }
    }
  }

  private func acquire(_ name: String) async throws(Problem) -> Bool {
    try await storing { () async throws(StoreError) in
      try await store.acquireLease(name, holder: holder, for: Self.duration)
    }
  }

  /// In a task of its own: the caller's may be cancelled. A lease that cannot be given up ends by itself.
  private func release(_ name: String) async {
    await Task {
      do throws(StoreError) {
        try await store.releaseLease(name, holder: holder)
      } catch {}
    }.value
  }
}
