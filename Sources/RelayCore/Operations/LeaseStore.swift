package import RelayWork

/// Turns that processes take at what one of them should do at a time.
package protocol LeaseStore: Sendable {
  /// Takes or renews the lease `name` for `holder` (a random number of the process), by the store's clock.
  /// - Returns: false when another holder has it.
  func acquireLease(_ name: String, holder: Int64, for duration: Duration) async throws(StoreError) -> Bool
  /// Gives it up early; does nothing when another holder has it.
  func releaseLease(_ name: String, holder: Int64) async throws(StoreError)
}

extension LeaseStore {
  /// - Parameters:
  ///   - holder: a random number of this process, or of this command.
  ///   - duration: long enough to be renewed in spite of a slow store; what a process that died delays the others by.
  package func lease(holder: Int64, lasting duration: Duration = .seconds(10)) -> Lease<StoreError> {
    Lease(lasting: duration) { name, duration throws(StoreError) in
      try await acquireLease(name, holder: holder, for: duration)
    } giveBack: { name throws(StoreError) in
      try await releaseLease(name, holder: holder)
    }
  }
}
