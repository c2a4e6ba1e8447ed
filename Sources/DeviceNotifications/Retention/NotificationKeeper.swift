package import Logging
package import RelayCore
import RelayWork
import ServiceLifecycle

/// Shows how much waits to be pushed, and forgets what is past retention.
package struct NotificationKeeper: Service {
  private let store: any NotificationStore
  private let retention: Duration
  private let clock: JudgedClock
  private let logger: Logger

  private static let interval = Duration.seconds(30)
  /// Rounds from one forgetting to the next.
  private static let roundsPerHour = 120
  /// Pushes that nobody made, long after their end.
  private static let pushGrace = Duration.seconds(3600)

  package init(store: any NotificationStore, retention: Duration, clock: JudgedClock, logger: Logger) {
    self.store = store
    self.retention = retention
    self.clock = clock
    self.logger = logger
  }

  package func run() async throws {
    await cancelWhenGracefulShutdown {
      var round = 0
      for await _ in Periodic(every: Self.interval) {
        await self.look(forgets: round % Self.roundsPerHour == 0)
        round += 1
      }
    }
  }

  private func look(forgets: Bool) async {
    do throws(StoreError) {
      let (now, past) = (clock.now(), clock.removal())
      for queue in try await store.notificationQueues() { NotificationCounters.show(queue, at: now) }
      guard forgets else { return }
      try await store.forgetNotifications(
        before: past.adding(.zero - retention), pushesEndedBy: past.adding(.zero - Self.pushGrace))
    } catch {
      logger.debug("device notifications cannot be looked after", metadata: ["error": "\(error)"])
    }
  }
}
