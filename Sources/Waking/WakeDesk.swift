package import Logging
package import RelayCore
import RelayHTTP
import ServiceLifecycle

/// Takes the word that devices are to be woken, or need not be, and writes it down: what comes while the store is writing,
/// with the next writing. Nobody waits for it: what is lost with the process is found by the sweep.
package final class WakeDesk: Notifier, Service {
  private enum Word: Sendable {
    case absent(DeviceAddress, isCertain: Bool)
    case connected(DeviceAddress)
  }

  private let words: Gathering<Word>
  private let metrics: WakeMetrics

  package init(
    store: any WakeStore, settings: WakingSettings, bell: WakeBell, metrics: WakeMetrics, logger: Logger
  ) {
    self.metrics = metrics
    words = Gathering(batchMax: Self.batchMax, waitingMax: Self.waitingMax) { words in
      let (asks, connected) = Self.sort(words, doubt: settings.doubt)
      do throws(StoreError) {
        let count = try await store.askToWake(asks, afterForgetting: connected, settings.terms)
        metrics.asked(count)
        if count > 0 { bell.ring() }
      } catch {
        // The messages are stored: the sweep finds them.
        metrics.lost(asks.count)
        logger.warning("devices to be woken could not be written down", metadata: ["error": "\(error)"])
      }
    }
  }

  package func absent(_ devices: [DeviceAddress], isCertain: Bool) {
    let taken = words.add(contentsOf: devices.map { .absent($0, isCertain: isCertain) })
    if taken < devices.count { metrics.lost(devices.count - taken) }
  }

  package func connected(_ device: DeviceAddress) { words.add(.connected(device)) }

  /// Until shutdown; then what was said is written down first.
  package func run() async throws {
    await cancelWhenGracefulShutdown {
      // Cancelled at the end, and only then.
      while !Task.isCancelled { try? await Task.sleep(for: .seconds(3600)) }
    }
    await words.settle(until: .now + Self.farewell)
  }

  /// Of each device the last word counts; that it connected also ends what was asked for before these.
  private static func sort(_ words: [Word], doubt: Duration) -> (asks: [WakeAsk], connected: [DeviceAddress]) {
    var asks: [DeviceAddress: WakeAsk] = [:]
    var connected: Set<DeviceAddress> = []
    for word in words {
      switch word {
      case .absent(let device, let isCertain):
        let delay = isCertain ? .zero : doubt
        asks[device] = WakeAsk(device, after: min(delay, asks[device]?.delay ?? delay))
      case .connected(let device):
        asks[device] = nil
        connected.insert(device)
      }
    }
    return (Array(asks.values), Array(connected))
  }

  private static let batchMax = 500
  /// What some busy seconds bring while the store is slow.
  private static let waitingMax = 20_000
  private static let farewell = Duration.seconds(5)
}
