import Logging
package import RelayCore
import ServiceLifecycle

/// Finds the devices that a message was stored for and nobody was told of: the process that stored it died in between, or
/// could not write it down. One process of all does it at a time.
package struct WakeSweeper: Service {
  private let store: any WakeStore & LeaseStore
  private let parts: WakeParts
  private let settings: WakingSettings
  private let holder = Int64.random(in: .min ... .max)

  package init(_ store: any WakeStore & LeaseStore, _ parts: WakeParts, _ settings: WakingSettings) {
    self.store = store
    self.parts = parts
    self.settings = settings
  }

  package func run() async throws {
    await cancelWhenGracefulShutdown {
      while !Task.isCancelled {
        await runOnce()
        // Only cancellation throws here, and the loop's condition sees it.
        try? await Task.sleep(for: settings.sweep)
      }
    }
  }

  private func runOnce() async {
    do throws(StoreError) {
      if try await store.acquireLease(Self.lease, holder: holder, for: settings.sweep * 2) { try await sweep() }
      parts.metrics.show(try await store.wakeQueue(), of: Array(parts.lanes.keys))
    } catch {
      parts.logger.warning("the sweep for devices to be woken failed", metadata: ["error": "\(error)"])
    }
  }

  private func sweep() async throws(StoreError) {
    try await store.beginWakeSweep(pause: settings.sweep * 3 / 4)
    for _ in 0..<Self.stepsMax {
      let step = try await store.sweepWakes(stretch: Self.stretch, reach: Self.reach, settings.terms)
      if step.asked > 0 {
        parts.metrics.foundBySweep(step.asked)
        parts.bell.ring()
      }
      if step.isDone || Task.isCancelled { return }
    }
  }

  private static let lease = "waking-sweep"
  /// Messages of one statement.
  private static let stretch: Int64 = 20_000
  /// After a long time without any sweep the older ones are left out.
  private static let reach: Int64 = 2_000_000
  private static let stepsMax = 200
}
