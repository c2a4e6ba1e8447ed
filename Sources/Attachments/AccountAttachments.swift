package import RelayCore

/// Removes what one account has uploaded, the blobs first: broken off, what is left is known still.
package struct AccountAttachments: AttachmentRemoval {
  private let store: any AttachmentStore & AccountRemovalStore
  private let blobs: any BlobStore

  package init(store: any AttachmentStore & AccountRemovalStore, blobs: any BlobStore) {
    self.store = store
    self.blobs = blobs
  }

  package func removeAttachments(of number: AccountNumber) async throws(Problem) -> Int {
    var removed = 0
    for _ in 0..<Self.roundsMax {
      let ids = try await stored { () async throws(StoreError) in
        try await store.attachments(of: number, limit: Self.batchMax)
      }
      guard !ids.isEmpty else { return removed }
      for id in ids {
        do throws(BlobFailure) {
          try await blobs.remove(id)
        } catch {
          throw Problem(.unavailable, reason: "a blob of a deleted account cannot be removed: \(error)")
        }
      }
      try await stored { () async throws(StoreError) in try await store.removeAttachments(ids) }
      removed += ids.count
    }
    throw Problem(.unavailable, reason: "an account that is being deleted has attachments without end")
  }

  private func stored<Value: Sendable>(_ ask: () async throws(StoreError) -> Value) async throws(Problem) -> Value {
    do throws(StoreError) {
      return try await ask()
    } catch {
      throw Problem(error)
    }
  }

  private static let batchMax = 100
  /// More than any quota holds: each counts 4 KiB at least.
  private static let roundsMax = 10_000
}
