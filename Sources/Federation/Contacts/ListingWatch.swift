import RelayCore
import RelayWork
import Synchronization

/// Lets peers' requests wait for a change of our listing (docs/federation-wire.md, "Waiting for changes").
///
/// When a signal says that an account has changed, the watch looks where the listing ends. If the end has moved, it
/// wakes all requests that wait. So one look serves all peers, and a change that the listing does not show wakes none.
/// Signals may be lost: the watch also looks every `recheck`.
final class ListingWatch<C: Clock<Duration>>: Sendable {
  private struct State {
    var waiters = Waiters<Void>()
    /// The end of the listing at the last look.
    var end: ListingCursor?
    var isOpen = true
  }

  private let directory: any DirectoryStore
  private let signals: any SignalBus
  private let recheck: Duration
  private let clock: C
  private let nudge = Nudge()
  private let state = Mutex(State())

  /// From one look to the next. A single change is seen at once; a storm of signals is twenty looks a second.
  static var pause: Duration { .milliseconds(50) }

  /// - Parameter recheck: how late a change is seen whose signal was lost.
  init(directory: any DirectoryStore, signals: any SignalBus, recheck: Duration, clock: C) {
    self.directory = directory
    self.signals = signals
    self.recheck = recheck
    self.clock = clock
  }

  /// Whether requests may wait.
  var isOpen: Bool { state.withLock { $0.isOpen } }

  /// Watches until cancelled.
  func run() async {
    signals.listen { [nudge] event in
      switch event {
      case .signal(.accountChanged), .connected: nudge.wake()
      case .signal(.peersChanged), .signal(.contactsChanged), .signal(.wakesAsked), .disconnected: break
      }
    }
    await withTaskGroup(of: Void.self) { group in
      group.addTask {
        for await _ in Periodic(every: self.recheck, on: self.clock) { self.nudge.wake() }
      }
      for await _ in nudge {
        await look()
        await Pause.for(Self.pause, on: clock)
      }
    }
  }

  /// Asks `find` until it finds something, `limit` has passed, or the process is about to stop: at once, whenever the
  /// listing may have changed, and once more at the end.
  /// - Returns: the finding; nil when there is none.
  func wait<Finding>(
    atMost limit: Duration, _ find: () async throws(Problem) -> Finding?
  ) async throws(Problem) -> Finding? {
    let deadline = clock.now.advanced(by: limit)
    while true {
      // It waits before it asks: a change that comes meanwhile is not missed.
      let waiter = enter()
      defer { if let waiter { leave(waiter) } }
      if let finding = try await find() { return finding }
      guard let waiter, clock.now < deadline, !Task.isCancelled else { return nil }
      await waiter.value(until: deadline, on: clock)
    }
  }

  /// Has all that wait ask again: what they may see may have changed.
  func wakeAll() { state.withLock { $0.waiters.takeAll() }.end(with: ()) }

  /// The process is about to stop: all that wait are answered, and none waits from now on.
  func close() {
    state.withLock { $0.isOpen = false }
    wakeAll()
  }

  private func enter() -> Waiter<Void>? {
    state.withLock { state in state.isOpen ? state.waiters.add() : nil }
  }

  private func leave(_ waiter: Waiter<Void>) { state.withLock { $0.waiters.remove(waiter) } }

  private func look() async {
    guard state.withLock({ !$0.waiters.isEmpty }) else { return }
    let end: ListingCursor
    do throws(StoreError) {
      end = try await directory.listingCursor()
    } catch {
      // The requests meet the same failure at the end of their time.
      return
    }
    let moved = state.withLock { state -> [Waiter<Void>] in
      guard state.end != end else { return [] }
      state.end = end
      return state.waiters.takeAll()
    }
    moved.end(with: ())
  }
}
