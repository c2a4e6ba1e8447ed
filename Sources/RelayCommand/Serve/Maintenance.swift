import Logging
import Metrics
import RelayCore
import RelayMetrics
import RelayWork
import ServiceLifecycle
import Synchronization

/// Keeps partitions ahead of time, drops what is past retention, and says when a clock is not believed.
final class Maintenance: Service {
  let store: any MessageStore & ClockStore
  let terms: RetentionTerms
  let clock: WallClock
  let logger: Logger
  private let lead = (
    store: RelayMetric.store.clockLead.gauge(.store),
    process: RelayMetric.store.clockLead.gauge(.process)
  )

  private let doubted = Atomic(false)

  init(store: any MessageStore & ClockStore, _ terms: RetentionTerms, clock: WallClock = .system, logger: Logger) {
    self.store = store
    self.terms = terms
    self.clock = clock
    self.logger = logger
  }

  private static let interval = Duration.seconds(3600)
  /// After a failure: nothing is removed in this process before the first run that succeeds.
  private static let retryInterval = Duration.seconds(60)
  /// While a clock is not believed: the operator's word, or a clock that was mended, is taken note of.
  private static let doubtInterval = Duration.seconds(5)

  func run() async throws {
    await cancelWhenGracefulShutdown { [self] in
      while !Task.isCancelled {
        let isJudging = store.judge.time != nil
        await pause(isJudging ? Self.interval : Self.retryInterval)
        if !Task.isCancelled { await runOnce() }
      }
    }
  }

  /// Waits for the next run, and looks at the clocks meanwhile as long as one is not believed.
  private func pause(_ interval: Duration) async {
    let end = ContinuousClock.now + interval
    while !Task.isCancelled, .now < end {
      let isDoubted = isAnyClockDoubted
      await Pause.for(isDoubted ? min(end - .now, Self.doubtInterval) : end - .now)
      guard isDoubted, !Task.isCancelled else { continue }
      await lookAtClocks(isNews: false)
      if !isAnyClockDoubted { logger.notice("the clocks are believed again") }
    }
  }

  /// A failure is no reason not to serve: appends make the room they need.
  func runOnce() async {
    do throws(StoreError) {
      let dropped = try await store.maintain(terms)
      if dropped > 0 { logger.notice("messages past retention dropped", metadata: ["days": "\(dropped)"]) }
    } catch {
      logger.warning("maintenance of the message store failed", metadata: ["error": "\(error)"])
    }
    await lookAtClocks(isNews: true)
  }

  private var isAnyClockDoubted: Bool { doubted.load(ordering: .relaxed) }

  /// - Parameter isNews: whether the log is told of clocks that are not believed.
  private func lookAtClocks(isNews: Bool) async {
    do throws(StoreError) {
      show(try await store.clockReading(), isNews: isNews)
    } catch {
      logger.debug("the store's clock was not looked at", metadata: ["error": "\(error)"])
    }
  }

  private func show(_ reading: ClockReading, isNews: Bool) {
    let own = clock.now()
    lead.store.record(reading.time.lead(of: reading.now).seconds)
    lead.process.record(reading.time.lead(of: own).seconds)
    let untrusted = [("the store's", reading.now), ("this process's", own)].filter { !reading.time.believes($0.1) }
    doubted.store(!untrusted.isEmpty, ordering: .relaxed)
    guard isNews else { return }
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

/// The words to operators about a clock that is not believed.
enum ClockWords {
  static let remedy =
    "Mend the clock if it is wrong. If it is right, as when all relays were off for longer than a day, run `relay storage "
    + "clock --accept`."
}
