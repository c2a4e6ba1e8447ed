import Logging
package import RelayCore
import RelayWork
import ServiceLifecycle
import Synchronization

/// Finds the devices that a message was stored for and nobody was told of: the process that stored it died in between,
/// or could not write it down. One process of all does it at a time.
package struct WakeSweeper: Service {
  private let store: any WakeStore & LeaseStore
  private let parts: WakeParts
  private let settings: WakingSettings
  private let lease: Lease<StoreError>
  private let stretch = Stretch()

  package init(_ store: any WakeStore & LeaseStore, _ parts: WakeParts, _ settings: WakingSettings) {
    self.store = store
    self.parts = parts
    self.settings = settings
    lease = store.lease(holder: .random(in: .min ... .max), lasting: settings.sweep * 2)
  }

  package func run() async throws {
    await cancelWhenGracefulShutdown {
      for await _ in Periodic(every: settings.sweep) { await runOnce() }
    }
  }

  private func runOnce() async {
    do throws(StoreError) {
      try await settings.served.announce(to: store)
      guard !settings.served.isEmpty else { return }
      if try await lease.acquire(Self.leaseName) { try await sweep() }
      parts.metrics.show(try await store.wakeQueue(), of: Array(parts.lanes.keys))
    } catch {
      parts.logger.warning("the sweep for devices to be woken failed", metadata: ["error": "\(error)"])
    }
  }

  private func sweep() async throws(StoreError) {
    try await store.beginWakeSweep(pause: settings.sweep * 3 / 4, settings.terms)
    for _ in 0..<Self.stepsMax {
      let step: WakeSweepStep
      do throws(StoreError) {
        step = try await store.sweepWakes(stretch: stretch.value, reach: Self.reach, settings.terms)
      } catch {
        stretch.failed()
        throw error
      }
      stretch.succeeded()
      if step.asked > 0 {
        parts.metrics.foundBySweep(step.asked)
        parts.bell.wake()
      }
      if step.isDone || Task.isCancelled { return }
    }
  }

  private static let leaseName = "waking-sweep"
  /// After a long time without any sweep the older ones are left out.
  private static let reach: Int64 = 2_000_000
  private static let stepsMax = 200
}

/// How many messages one statement looks at: less after one that took too long, so that the sweep gets past any place.
private final class Stretch: Sendable {
  private let messages = Mutex(max)
  var value: Int64 { messages.withLock { $0 } }
  func failed() { messages.withLock { $0 = Swift.max(Self.min, $0 / 2) } }
  func succeeded() { messages.withLock { $0 = Swift.min(Self.max, $0 * 2) } }

  private static let min: Int64 = 100
  private static let max: Int64 = 20_000
}
