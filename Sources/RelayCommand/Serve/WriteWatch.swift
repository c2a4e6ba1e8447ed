import Logging
import Metrics
import RelayCore
import RelayMetrics
import RelayWork
import ServiceLifecycle

/// Reports in the log and in `relay_storage_writable` when the store takes no writes, and detects when it does again.
///
/// A refused request shows within a second. An idle relay tries a write of its own now and then.
struct WriteWatch: Service {
  private let store: any Storage
  private let logger: Logger
  private let writable = RelayMetric.store.writable.gauge()

  init(store: any Storage, logger: Logger) {
    self.store = store
    self.logger = logger
    writable.record(1)
  }

  /// While the store refuses writes, one is tried each time.
  private static let interval = Duration.seconds(1)
  private static let quietInterval = Duration.seconds(30)
  /// A store that does not let us try is asked no more often: its own log names each attempt.
  private static let forbiddenInterval = Duration.seconds(300)
  /// So long nothing may be refused before the store counts as whole again.
  private static let calm = Duration.seconds(10)
  /// A lasting outage is logged again.
  private static let reminderInterval = Duration.seconds(300)

  private struct Outage {
    let began = ContinuousClock.now
    var told = ContinuousClock.now
    var seconds: Int64 { (ContinuousClock.now - began).components.seconds }
  }

  func run() async throws {
    await cancelWhenGracefulShutdown {
      var outage: Outage?
      var (tried, pause) = (ContinuousClock.now, Self.quietInterval)
      for await _ in Periodic(every: Self.interval, from: .afterInterval) {
        let isQuiet = store.refusals.reason == nil
        guard !isQuiet || ContinuousClock.now - tried >= pause else { continue }
        tell(&outage)
        let mayTry = await tryWriting()
        pause = mayTry ? Self.quietInterval : Self.forbiddenInterval
        tried = .now
        tell(&outage)
      }
    }
  }

  /// A store that does not answer changes nothing here: readiness reports it.
  /// - Returns: false when the store does not let us try, as when our role may create no temporary table. Then time
  ///   alone ends a refusal, and the next refused request begins it anew.
  private func tryWriting() async -> Bool {
    do throws(StoreError) {
      try await store.tryWriting()
      store.refusals.overcome(after: Self.calm)
    } catch .unavailable(let reason) {
      logger.debug("the store was not written to", metadata: ["reason": "\(reason)"])
    } catch {
      logger.debug("no write can be tried", metadata: ["reason": "\(error)"])
      store.refusals.overcome(after: Self.calm)
      return false
    }
    return true
  }

  private func tell(_ outage: inout Outage?) {
    let reason = store.refusals.reason
    writable.record(reason == nil ? 1 : 0)
    switch (reason, outage) {
    case (nil, nil): break
    case (let reason?, nil):
      outage = Outage()
      logger.error("the store takes no writes; reads go on", metadata: ["reason": "\(reason)"])
    case (let reason?, let present?):
      guard ContinuousClock.now - present.told >= Self.reminderInterval else { return }
      outage?.told = .now
      logger.error(
        "the store takes no writes still", metadata: ["reason": "\(reason)", "seconds": "\(present.seconds)"])
    case (nil, let past?):
      outage = nil
      logger.notice("the store takes writes again", metadata: ["after-seconds": "\(past.seconds)"])
    }
  }
}
