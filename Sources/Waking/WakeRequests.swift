package import Logging
package import RelayCore
import RelayHTTP
package import RelayWork
import ServiceLifecycle

/// Takes the word that devices are to be woken, or need not be, and writes it down. Words that come while the store
/// is writing go with the next writing. No caller waits for it: the sweep finds words that are lost with the process.
package final class WakeRequests: Notifier, Service {
  private struct Word: Sendable {
    enum Kind: Sendable {
      case absent(isCertain: Bool)
      case connected
    }
    let device: DeviceAddress
    let kind: Kind
    let said = ContinuousClock.now
  }

  private let words: Batcher<Word>
  private let served: ServedProviders
  private let metrics: WakeMetrics

  package init(
    store: any WakeStore, signals: any SignalBus, settings: WakingSettings, bell: NudgeGroup, metrics: WakeMetrics,
    logger: Logger
  ) {
    self.metrics = metrics
    let served = settings.served
    self.served = served
    words = Batcher(
      retryingBatchesOf: Self.batchMax, waitingMax: Self.waitingMax, rest: .init(beforeRetry: Self.pause)
    ) { words in
      let (asks, connected) = Self.sort(words, doubt: settings.doubt)
      do throws(StoreError) {
        let count = try await store.askToWake(asks, afterForgetting: connected, settings.terms)
        metrics.asked(count)
        if count > 0 {
          bell.wake()
          if served.needsOthers { await signals.publish(.wakesAsked) }
        }
        return []
      } catch {
        logger.warning("devices to be woken could not be written down", metadata: ["error": "\(error)"])
        // Tried again for a while, behind newer words. Older words are left to the sweep: the messages are stored.
        let now = ContinuousClock.now
        let again = words.filter { now - $0.said < Self.patience }
        let kept = Set(again.map(\.device))
        metrics.lost(asks.count { !kept.contains($0.device) })
        return again
      }
    }
  }

  package func absent(_ devices: [DeviceAddress], isCertain: Bool) {
    // No process has a provider: nobody can be woken.
    guard !served.isEmpty else { return }
    let taken = words.add(contentsOf: devices.map { Word(device: $0, kind: .absent(isCertain: isCertain)) })
    if taken < devices.count { metrics.lost(devices.count - taken) }
  }

  package func connected(_ device: DeviceAddress) {
    guard !served.isEmpty else { return }
    words.add(Word(device: device, kind: .connected))
  }

  /// Until shutdown; then what was said is written down first.
  package func run() async throws {
    await cancelWhenGracefulShutdown {
      await Pause.untilCancelled()
    }
    await words.settle(until: .now + Self.farewell)
  }

  /// The last word of each device counts. If the device connected, that also ends the requests before these.
  private static func sort(_ words: [Word], doubt: Duration) -> (asks: [WakeAsk], connected: [WakeRelease]) {
    var asks: [DeviceAddress: WakeAsk] = [:]
    var connected: [DeviceAddress: WakeRelease] = [:]
    let now = ContinuousClock.now
    // Words that could not be written down stand behind younger ones.
    for word in words.sorted(by: { $0.said < $1.said }) {
      let device = word.device
      switch word.kind {
      case .absent(let isCertain):
        let delay = isCertain ? .zero : doubt
        asks[device] = WakeAsk(device, after: min(delay, asks[device]?.delay ?? delay))
      case .connected:
        asks[device] = nil
        connected[device] = WakeRelease(device, age: now - word.said)
      }
    }
    return (Array(asks.values), Array(connected.values))
  }

  private static let batchMax = 500
  /// As many as some busy seconds bring while the store is slow.
  private static let waitingMax = 20_000
  /// How long it is tried to write a word down, and the pauses between.
  private static let patience = Duration.seconds(60)
  private static let pause = Duration.seconds(1)
  private static let farewell = Duration.seconds(5)
}
