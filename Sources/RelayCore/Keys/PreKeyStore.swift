/// Prekeys, by device.
package protocol PreKeyStore: Sendable {
  /// Stores `upload`: the one-time keys in the place of all the device had, the others where it brings them, and its
  /// identity key into the account.
  ///
  /// Device 1 may change the identity key; a linked device must bring the account's, or the first (reference Part 6,
  /// 10). A change removes the signed prekeys of all the account's devices, which the former key signed, except the one
  /// that the upload brings.
  func replacePreKeys(of device: DeviceAddress, with upload: PreKeyUpload) async throws(StoreError)
    -> PreKeyUploadOutcome

  /// Stores `key` while `identityKey`, which signed it, is still the account's.
  /// - Returns: false, with nothing stored, when the device does not exist or the account has another identity key.
  func setSignedPreKey(_ key: SignedPreKey, of device: DeviceAddress, identityKey: String) async throws(StoreError)
    -> Bool
  /// - Returns: nil when the device does not exist or has none.
  func signedPreKey(of device: DeviceAddress) async throws(StoreError) -> SignedPreKey?

  /// One-time keys left, the last resort not counted.
  func preKeyCount(of device: DeviceAddress) async throws(StoreError) -> Int

  /// Takes one prekey of each of `devices` that has any: the one-time key with the smallest id, which nobody is
  /// ever given again, or, when there is none, the last-resort key, which stays. The signed prekey comes with it.
  /// - Parameters:
  ///   - oneTime: the devices, of `devices`, whose one-time keys may be taken; the last resort serves for the others.
  ///   - epoch: what the store's epoch has reached, as the caller knows. A store with a lower one is an older state of
  ///     itself: the last resort serves for all.
  /// - Returns: one per device at most, ascending by device, with a prekey or a signed one; registration ids and
  ///   identity key of this moment.
  func drawPreKeys(of account: AccountNumber, devices: [DeviceID], oneTime: [DeviceID], epoch: Int64)
    async throws(StoreError) -> [DrawnPreKey]
}

/// The price of a draw, which is paid before keys are taken.
package struct PreKeyDrawCost: Sendable {
  /// How many keys are handed out at most: the active devices that match. 0 where there is no such account or device.
  package let keys: Int
  /// One for each device whose one-time keys are to be taken: its owner's supply, which all requesters share.
  package let targets: [LimitCharge]

  package init(keys: Int, targets: [LimitCharge]) {
    self.keys = keys
    self.targets = targets
  }
}

/// Hands prekeys of this relay's accounts out. Implemented by Relay, used by Federation for peers.
package protocol PreKeyDispenser: Sendable {
  /// - Parameter pay: charges the requester, and then takes each of the cost's targets by itself, best in one call to
  ///   the limiter (`RateLimiter.take(_:thenEach:)`). Called once, before any key is taken, also where there is no such
  ///   account. Returns a decision for each target: the last resort serves for one that is refused.
  /// - Returns: one per active device that matches and has what `version` can show: for version 1 a prekey, for
  ///   version 2 a prekey or a signed one; never empty.
  /// - Throws: what `pay` throws, and nothing is taken then; `.notFound` when there is no such active account or
  ///   device, or no key.
  func draw(
    from account: AccountNumber, devices: DeviceSelector, version: PreKeyVersion,
    paying pay: (PreKeyDrawCost) async throws(Problem) -> [LimitDecision]
  ) async throws(Problem) -> [DrawnPreKey]
}
