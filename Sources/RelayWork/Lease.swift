/// Lets one process of several at a time do a piece of work that may take long, by a turn that ends by itself.
package struct Lease<Failure: Error>: Sendable {
  /// How long a turn lasts: long enough to be renewed in spite of a slow store; what a process that died delays the
  /// others by.
  package let duration: Duration
  private let take: @Sendable (_ name: String, _ duration: Duration) async throws(Failure) -> Bool
  private let giveBack: @Sendable (_ name: String) async throws(Failure) -> Void
  private let clock: any Clock<Duration>

  /// - Parameters:
  ///   - take: takes or renews the lease of that name for the duration. Returns false when another holder has it.
  ///   - giveBack: gives it up early; does nothing when another holder has it.
  package init(
    lasting duration: Duration, on clock: any Clock<Duration> = ContinuousClock(),
    take: @escaping @Sendable (_ name: String, _ duration: Duration) async throws(Failure) -> Bool,
    giveBack: @escaping @Sendable (_ name: String) async throws(Failure) -> Void
  ) {
    self.duration = duration
    self.clock = clock
    self.take = take
    self.giveBack = giveBack
  }

  /// The side that ended first.
  private enum Ended<Value: Sendable>: Sendable {
    case body(Value)
    case lease
  }

  /// As `keep`, and gives the lease up afterwards.
  package func hold<Value: Sendable>(
    _ name: String, _ body: @escaping @Sendable () async -> Value
  ) async throws(Failure) -> Value? {
    let result = try await keep(name, body)
    guard result != nil else { return nil }
    // In a task of its own: the caller's may be cancelled. A lease that cannot be given up ends by itself.
    await Task {
      do throws(Failure) {
        try await release(name)
      } catch {}
    }.value
    return result
  }

  /// Takes or renews the lease `name`, and renews it while `body` runs, whatever that waits for; cancels it when the
  /// lease is lost. Afterwards the lease is still held, until it ends by itself.
  /// - Returns: what `body` returns, which says itself when it was cancelled; nil, without having run it, when another
  ///   process has the lease.
  package func keep<Value: Sendable>(
    _ name: String, _ body: @escaping @Sendable () async -> Value
  ) async throws(Failure) -> Value? {
    guard try await acquire(name) else { return nil }
    return await withTaskGroup(of: Ended<Value>.self) { group in
      group.addTask { .body(await body()) }
      group.addTask {
        await renew(name)
        return .lease
      }
      var result: Value?
      for await ended in group {
        if case .body(let value) = ended { result = value }
        group.cancelAll()
      }
      return result
    }
  }

  /// Takes or renews the lease once. - Returns: false when another process has it.
  package func acquire(_ name: String) async throws(Failure) -> Bool { try await take(name, duration) }

  /// Gives the lease up early; does nothing when another process has it.
  package func release(_ name: String) async throws(Failure) { try await giveBack(name) }

  /// Returns when the lease is lost, or the task is cancelled.
  private func renew(_ name: String) async {
    while await Pause.for(duration * 3 / 10, on: clock) {
      do throws(Failure) {
        guard try await acquire(name) else { return }
      } catch {
        // The store is away, which `body` finds out too: the lease then ends by itself.
        return
      }
    }
  }
}
