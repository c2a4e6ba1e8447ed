package import RelayCore
import Synchronization

/// The providers that devices are woken through: this process's own, and those that other processes of the operator
/// have announced. A process that lacks the keys of one writes down who is to be woken, and leaves it to those that
/// have them.
package final class ServedProviders: Sendable {
  /// The providers whose keys this process has.
  package let own: [WakeProvider]
  private let all: Mutex<[WakeProvider]>

  package init(own: [WakeProvider]) {
    self.own = own
    all = Mutex(own)
  }

  /// Whether some process has the keys of `provider`.
  func serves(_ provider: WakeProvider) -> Bool { all.withLock { $0.contains(provider) } }

  package var isEmpty: Bool { all.withLock(\.isEmpty) }

  /// Whether another process is the one that wakes some devices.
  var needsOthers: Bool { all.withLock { all in all.contains { !own.contains($0) } } }

  package func terms(lifetime: Duration) -> WakeTerms {
    WakeTerms(providers: all.withLock { $0 }, lifetime: lifetime)
  }

  /// Tells the store of its own, and learns of the others'.
  func announce(to store: some WakeStore) async throws(StoreError) {
    let announced = try await store.announceWakeProviders(own)
    all.withLock { $0 = announced }
  }
}
