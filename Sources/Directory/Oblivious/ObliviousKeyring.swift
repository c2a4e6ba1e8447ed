package import RelayCore
import Synchronization

/// The operator's key as this process knows it: drawn by the first process, kept by the store, read again now and
/// then, so that another one in its place reaches every process.
package final class ObliviousKeyring: Sendable {
  private let store: any ServerSecretStore
  private let current = Mutex<ObliviousKey?>(nil)

  package init(store: any ServerSecretStore) { self.store = store }

  /// nil before `refresh` has succeeded once.
  package var key: ObliviousKey? { current.withLock { $0 } }

  /// Reads the key.
  /// - Throws: `.corrupted` for a secret that is no key, or does not open: the one before stays in use.
  @discardableResult
  package func refresh() async throws(StoreError) -> ObliviousKey {
    let secret = try await store.serverKey(.oblivious) { ObliviousKey.draw() }
    if let key, constantTimeEquals(key.secret.bytes, secret.bytes) { return key }
    guard let key = ObliviousKey(secret: secret) else {
      throw .corrupted(reason: "the secret \(ServerKeyName.oblivious.rawValue) has not 32 bytes")
    }
    current.withLock { $0 = key }
    return key
  }
}
