package import Logging
package import RelayCore
import RelayWork
import ServiceLifecycle

/// Learns which providers other processes serve, in a process that pushes nothing itself. By them it knows which
/// devices to write down.
package struct ProviderWatch: Service {
  private let store: any WakeStore
  private let settings: WakingSettings
  private let logger: Logger

  package init(_ store: any WakeStore, _ settings: WakingSettings, logger: Logger) {
    self.store = store
    self.settings = settings
    self.logger = logger
  }

  package func run() async throws {
    await cancelWhenGracefulShutdown {
      for await _ in Periodic(every: settings.sweep) {
        do throws(StoreError) {
          try await settings.served.announce(to: store)
        } catch {
          logger.debug("it is not known which providers are served", metadata: ["error": "\(error)"])
        }
      }
    }
  }
}
