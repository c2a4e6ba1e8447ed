import RelayCore
import RelayWork
import ServiceLifecycle

extension Hub: Service {
  /// Goes round the sessions until the process stops; then ends those that are left.
  package func run() async throws {
    await cancelWhenGracefulShutdown { [self] in
      await withTaskGroup(of: Void.self) { group in
        group.addTask { for await _ in Beat(every: self.steps.renewal) { self.renew() } }
        group.addTask { for await _ in Beat(every: self.steps.renewal) { await self.registry.renew() } }
        group.addTask { for await _ in Beat(every: self.steps.poll) { self.poll() } }
        group.addTask { for await _ in Beat(every: self.steps.renewal) { await self.tellAgain() } }
        group.addTask { for await _ in Periodic(every: self.steps.comparison) { await self.compareMissed() } }
      }
    }
    for session in beginDraining() { session.end(.restart) }
    await settle(until: .now + Self.farewell)
  }

  /// Ends all connections evenly over `window`, in random order, so that their clients do not come back all at once;
  /// refuses new ones. On return they have gone, and what they had asked is answered: those excepted that take longer
  /// than `answering`.
  package func drain(over window: Duration) async {
    let sessions = beginDraining()
    let start = ContinuousClock.now
    for (index, session) in sessions.enumerated() {
      let due = start + window * index / sessions.count
      // Cancelled: all at once.
      if due > .now + Self.drainStep { await Pause.until(due) }
      session.end(.restart)
    }
    await Pause.poll(every: .milliseconds(20), until: .now + Self.answering) { connectionCount == 0 }
  }

  /// The time behind the window in which requests under way are answered and connections close.
  private static let answering = Duration.seconds(10)
  /// The time in which connections close properly once the process stops.
  private static let farewell = Duration.seconds(5)
  /// Connections of less than this time are ended together.
  private static let drainStep = Duration.milliseconds(10)
}
