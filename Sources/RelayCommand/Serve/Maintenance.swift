import Logging
import Metrics
import RelayCore
import ServiceLifecycle

/// Keeps partitions ahead of time, drops what is past retention, and says when a clock is not believed.
struct Maintenance: Service {
  let store: any MessageStore & ClockStore
  let retention: Duration
  let clock: WallClock
  let logger: Logger
  private let lead = (
    store: Gauge(label: "relay_clock_lead_seconds", dimensions: [("of", "store")]),
    process: Gauge(label: "relay_clock_lead_seconds", dimensions: [("of", "process")])
  )

  init(store: any MessageStore & ClockStore, retention: Duration, clock: WallClock = .system, logger: Logger) {
    self.store = store
    self.retention = retention
    self.clock = clock
    self.logger = logger
  }

  private static let interval = Duration.seconds(3600)
  /// After a failure: nothing is removed in this process before the first run that succeeds.
  private static let retryInterval = Duration.seconds(60)

  func run() async throws {
    await cancelWhenGracefulShutdown {
      while !Task.isCancelled {
        let isJudging = store.judge.time != nil
        // Only cancellation throws here, and the loop's condition sees it.
        try? await Task.sleep(for: isJudging ? Self.interval : Self.retryInterval)
        if !Task.isCancelled { await runOnce() }
      }
    }
  }

  /// A failure is no reason not to serve: appends make the room they need.
  func runOnce() async {
    do throws(StoreError) {
      let dropped = try await store.maintain(retention: retention)
      if dropped > 0 { logger.notice("messages past retention dropped", metadata: ["days": "\(dropped)"]) }
    } catch {
      logger.warning("maintenance of the message store failed", metadata: ["error": "\(error)"])
    }
    do throws(StoreError) {
      show(try await store.clockReading())
    } catch {
      logger.debug("the store's clock was not looked at", metadata: ["error": "\(error)"])
    }
  }

  private func show(_ reading: ClockReading) {
    let own = clock.now()
    lead.store.record(reading.time.lead(of: reading.now).seconds)
    lead.process.record(reading.time.lead(of: own).seconds)
    let untrusted = [("the store's", reading.now), ("this process's", own)].filter { !reading.time.believes($0.1) }
    for (whose, clock) in untrusted {
      logger.warning(
        "\(whose) clock is ahead and not believed: nothing is removed by it",
        metadata: [
          "ahead-seconds": "\(Int(reading.time.lead(of: clock).seconds))",
          "remedy": "\(ClockWords.remedy)",
        ])
    }
  }
}

extension Duration {
  fileprivate var seconds: Double { self / .seconds(1) }
}

/// What operators are told of a clock that is not believed.
enum ClockWords {
  static let remedy =
    "Mend the clock if it is wrong. If it is right, as when all relays were off for longer than a day, run `relay storage "
    + "clock --accept`."
}
