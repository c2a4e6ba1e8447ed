package import RelayCore

/// Finds the owners of contacts in the store, for a process that has no directory in memory: one look-up of the store
/// for each request that names no relay.
package struct StoredHomes: HomeDirectory {
  private let store: any DirectoryStore

  package init(store: any DirectoryStore) { self.store = store }

  /// The store says itself when it cannot answer.
  package var isReady: Bool { true }

  package func home(of token: ContactToken) async throws(StoreError) -> ContactHome? {
    guard let entry = try await store.entries(for: [token]).first else { return nil }
    return entry.relay.map { .peer($0) } ?? .here
  }
}
