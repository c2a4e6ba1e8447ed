import RelayCore

// Changes of accounts, and what every process is told of them.

extension AccountCache {
  /// Runs a change of the account whose outcome the caller looks at: if it changed anything, it calls `changed`.
  ///
  /// After a failure everyone reads the account anew: a commit whose answer was lost may have changed it all the same.
  func attempt<Outcome>(_ number: AccountNumber, _ change: () async throws(StoreError) -> Outcome)
    async throws(Problem) -> Outcome
  {
    do throws(StoreError) {
      return try await change()
    } catch {
      await changed(number)
      throw Problem(error)
    }
  }

  /// Applies `change` to a device that has proved itself.
  /// - Throws: `.unauthorized` when it was removed since.
  func update(_ device: DeviceAddress, _ change: DeviceChange, in store: any AccountStore) async throws(Problem) {
    let isStored = try await attempt(device.account) { () async throws(StoreError) in
      try await store.updateDevice(device, change)
    }
    await changed(device.account)
    guard isStored else { throw Problem(.unauthorized) }
  }
}
