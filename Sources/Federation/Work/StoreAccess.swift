import RelayCore

/// Runs a call to a store; its failure becomes what a peer is told.
func storing<T: Sendable>(_ call: () async throws(StoreError) -> T) async throws(Problem) -> T {
  do throws(StoreError) {
    return try await call()
  } catch {
    throw Problem(error)
  }
}
