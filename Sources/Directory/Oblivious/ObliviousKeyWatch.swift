package import Logging
package import RelayCore
import RelayWork
import ServiceLifecycle

/// Knows the key of oblivious look-ups in a process that leaves the outputs to others: one that answers clients, and
/// holds nothing of the directory itself.
package final class ObliviousKeyWatch: Service {
  /// Knows the key once `run` has read it.
  package let keyring: ObliviousKeyring
  private let logger: Logger

  /// The key is read again: another one in its place reaches every process.
  private static let interval = Duration.seconds(10)
  /// While it could not be read yet.
  private static let firstInterval = Duration.milliseconds(500)

  package init(store: any ServerSecretStore, logger: Logger) {
    keyring = ObliviousKeyring(store: store)
    self.logger = logger
  }

  package func run() async throws {
    await cancelWhenGracefulShutdown { [self] in
      for await _ in Periodic(every: Self.firstInterval) {
        await refresh()
        if keyring.key != nil { break }
      }
      for await _ in Periodic(every: Self.interval, from: .afterInterval) { await refresh() }
    }
  }

  private func refresh() async {
    do throws(StoreError) {
      try await keyring.refresh()
    } catch {
      logger.debug("the key of oblivious look-ups cannot be read", metadata: ["reason": "\(error)"])
    }
  }
}
